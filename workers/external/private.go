package external

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/exec/sandbox"
	"ralph/workers/external/home"
	"ralph/workers/external/proxy"
)

// syncEvery is how often refreshed credentials are exchanged while a program runs.
const syncEvery = 2 * time.Second

// Private is what one run of a program has for itself: a home, and in a sandbox the way
// to the hosts of its model. Who made it closes it.
type Private struct {
	name  string
	home  *home.Home
	proxy *proxy.Proxy // nil where the program has the whole network
	env   []string
	read  []string
	stop  context.CancelFunc
	wg    sync.WaitGroup
	told  []string // of the goroutine until wg is done
}

// Private makes one. environ is the user's environment. confined says that the program
// runs in a sandbox, where it has no other network.
func (a Adapter) Private(ctx context.Context, environ []string, dir string, confined bool) (*Private, error) {
	wrong := func(err error) error { return fmt.Errorf("prepare agent %q: %w", a.Name, err) }
	if err := a.check(); err != nil {
		return nil, wrong(err)
	}
	user := exec.Getenv(environ, "HOME")
	h, told, err := home.New(home.Options{User: user, Environ: environ, Stores: a.State, Temp: exec.Getenv(environ, "TMPDIR")})
	if err != nil {
		return nil, wrong(err)
	}
	ctx, stop := context.WithCancel(ctx)
	p := &Private{name: a.Name, home: h, env: h.Environ(), read: slices.Concat(a.Read, a.roots(environ, dir, user)), told: told, stop: stop}
	if confined {
		if p.proxy, err = proxy.New(ctx, proxy.Options{Vendor: expand(a.Hosts, environ), Named: slices.Concat(a.Named, bases(a.environ(environ))), Environ: environ}); err != nil {
			stop()
			_ = h.Close() // the error is of more use
			return nil, wrong(err)
		}
		p.env = slices.Concat(p.env, proxied())
	}
	p.wg.Go(func() { p.sync(ctx) })
	return p, nil
}

// sync exchanges credentials until the end.
func (p *Private) sync(ctx context.Context) {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.told = append(p.told, p.home.Sync()...)
			return
		case <-tick.C:
			p.home.Sync() // what cannot be taken yet is said at the end
		}
	}
}

// Dir is a directory that the program can read and write.
func (p *Private) Dir() string { return filepath.Dir(p.home.Path()) }

// Environ are variables for the program, to be set last.
func (p *Private) Environ() []string { return p.env }

// Call is what a sandbox has to allow the program.
func (p *Private) Call() accesspolicy.Call {
	call := accesspolicy.Call{State: []string{p.Dir()}, Read: p.read}
	if p.proxy != nil {
		call.Serve = p.proxy.Serve
	}
	return call
}

// Close takes refreshed credentials back and removes the rest. The program has ended. told
// are whole sentences for the user.
func (p *Private) Close() (told []string) {
	p.stop()
	p.wg.Wait()
	told = p.told
	if p.proxy != nil {
		p.proxy.Close()
		if hosts := p.proxy.Refused(); len(hosts) > 0 {
			told = append(told, fmt.Sprintf("it could not reach %s: it has the hosts of its maker; `agents: {%s: {hosts: [%s]}}` in the user's config allows it", strings.Join(hosts, ", "), p.name, strings.Join(hosts, ", ")))
		}
	}
	if err := p.home.Close(); err != nil {
		told = append(told, err.Error())
	}
	return told
}

// proxied are the variables by which programs find a proxy.
func proxied() []string {
	env := []string{"NO_PROXY=", "no_proxy=", "NODE_USE_ENV_PROXY=1"}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		value := "=http://" + sandbox.ServiceAddr
		env = append(env, name+value, strings.ToLower(name)+value)
	}
	return env
}

// expand puts variables into hosts, and leaves out those whose variable is not set.
func expand(hosts, environ []string) (out []string) {
	for _, host := range hosts {
		before, rest, found := strings.Cut(host, "{")
		if name, after, ok := strings.Cut(rest, "}"); found && ok {
			value := exec.Getenv(environ, name)
			if host = before + value + after; value == "" || proxy.Check([]string{host}) != nil {
				continue
			}
		}
		out = append(out, host)
	}
	return out
}

// bases are the hosts of the variables that say where a model is.
func bases(env []string) (hosts []string) {
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasSuffix(name, "_BASE_URL") {
			continue
		}
		u, err := url.Parse(value)
		if err != nil || u.Host == "" {
			continue
		}
		host := u.Host
		if u.Port() == "" {
			host += map[string]string{"http": ":80"}[u.Scheme]
		}
		if proxy.Check([]string{host}) == nil {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// roots are the directories that the program itself is in, as far as they are no home.
func (a Adapter) roots(environ []string, dir, user string) (out []string) {
	path, err := find(a.Argv[0], exec.Getenv(environ, "PATH"), dir)
	if err != nil {
		return nil // Run says so
	}
	for _, p := range []string{path, real(path)} {
		root := filepath.Dir(p)
		if i := strings.Index(root+"/", "/node_modules/"); i >= 0 {
			root = root[:i] + "/node_modules"
		}
		if !in(root, user) && !in(root, dir) {
			out = append(out, root)
		}
	}
	return out
}
