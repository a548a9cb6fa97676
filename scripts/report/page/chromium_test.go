package page_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browser is a headless Chromium whose every request ends at a recorder.
type browser struct {
	bin   string
	proxy *httptest.Server
	mu    sync.Mutex
	asked []string
}

// newBrowser skips the test without a Chromium; with
// RALPH_TEST_MUST_CHROMIUM=1 there must be one.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	bin, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("RALPH_TEST_MUST_CHROMIUM") == "1" {
			t.Fatal("RALPH_TEST_MUST_CHROMIUM is set and there is no chromium in the PATH")
		}
		t.Skip("there is no chromium in the PATH")
	}
	b := &browser{bin: bin}
	b.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.asked = append(b.asked, r.Method+" "+r.Host+r.URL.Path)
		b.mu.Unlock()
		http.Error(w, "nothing here", http.StatusNotFound)
	}))
	t.Cleanup(b.proxy.Close)
	return b
}

// requests are those to hosts that a page can name; the browser's own are not
// the page's.
func (b *browser) requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.asked), func(r string) bool {
		return strings.Contains(r, "google") || strings.Contains(r, "gvt1.com")
	})
}

// run shows a page and returns what the browser printed.
func (b *browser) run(t *testing.T, file string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	address, err := url.Parse(b.proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-features=OptimizationHints,MediaRouter,Translate",
		"--metrics-recording-only", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(), "--proxy-server=127.0.0.1:" + port, "--proxy-bypass-list=<-loopback>",
		"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"}, args...)
	var out, diag bytes.Buffer
	c := exec.CommandContext(ctx, b.bin, append(args, "file://"+file)...)
	c.Stdout, c.Stderr = &out, &diag
	// Its helpers end with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 10 * time.Second
	err = c.Run()
	if c.Process != nil {
		if kill := syscall.Kill(-c.Process.Pid, syscall.SIGKILL); kill != nil && !errors.Is(kill, syscall.ESRCH) {
			t.Log(kill)
		}
	}
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, diag.String())
	}
	return out.Bytes()
}

func store(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestInChromium shows the worst session that there is: its texts are texts,
// nothing of it runs, and nothing leaves the page.
func TestInChromium(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	control := store(t, "control.html", []byte(`<!doctype html><title>before</title><img src="http://recorder.test/pixel"><script>document.title = "owned"</script>`))
	dom := string(b.run(t, control, "--dump-dom"))
	if got := b.requests(); !slices.Contains(got, "GET recorder.test/pixel") || !strings.Contains(dom, "<title>owned</title>") {
		t.Fatalf("the recorder or the browser does not work: %q, %.200s", got, dom)
	}

	b.mu.Lock()
	b.asked = nil
	b.mu.Unlock()
	const evil = `</style></title></svg><script>document.title="owned"</script><img src=http://recorder.test/a onerror='document.title="owned"'><link rel=stylesheet href=http://recorder.test/b>` +
		`<a href="javascript:document.title='owned'">x</a><iframe src=http://recorder.test/c></iframe><style>@import "http://recorder.test/d"</style><meta http-equiv=refresh content="0;url=http://recorder.test/e">`
	for name, data := range map[string][]byte{"poisoned.html": written(t, poisoned(evil)), "hostile.html": written(t, read(t, filepath.Join(sessions, "hostile")))} {
		dom = string(b.run(t, store(t, name, data), "--dump-dom"))
		if strings.Contains(dom, "<title>owned") || !strings.Contains(dom, "Ralph session") {
			t.Errorf("%s: something ran: %.300s", name, dom)
		}
		root := parsed(t, []byte(dom))
		inert(t, root)
		if name == "poisoned.html" && strings.Count(inner(root), `<script>document.title="owned"`) < 10 {
			t.Error("the texts do not stand on the page")
		}
	}
	if got := b.requests(); len(got) > 0 {
		t.Errorf("the pages asked for %q", got)
	}
}

// TestPolicyInChromium plants what the template would never let through: the
// page's own policy still stops it.
func TestPolicyInChromium(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	data := bytes.Replace(written(t, read(t, filepath.Join(sessions, "clean"))), []byte("<main>"),
		[]byte(`<main><script>document.title = "owned"</script><img src="http://recorder.test/a" onerror="document.title='owned'"><iframe src="http://recorder.test/b"></iframe>`), 1)
	dom := string(b.run(t, store(t, "planted.html", data), "--dump-dom"))
	if strings.Contains(dom, "<title>owned") || !strings.Contains(dom, "http://recorder.test/a") {
		t.Errorf("the policy let a script run, or nothing was planted: %.200s", dom)
	}
	if got := b.requests(); len(got) > 0 {
		t.Errorf("the policy let %q out", got)
	}
}

// TestPicturesInChromium takes the page's picture in light and dark, wide and
// narrow, and prints it.
func TestPicturesInChromium(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	file := store(t, "clean.html", written(t, read(t, filepath.Join(sessions, "clean"))))
	for _, c := range []struct {
		name   string
		scheme int // of the browser's settings
		wide   int
		dark   bool
	}{{"light", 1, 1600, false}, {"dark", 0, 1200, true}} {
		shot := filepath.Join(t.TempDir(), c.name+".png")
		b.run(t, file, fmt.Sprintf("--blink-settings=preferredColorScheme=%d", c.scheme), fmt.Sprintf("--window-size=%d,900", c.wide), "--screenshot="+shot)
		img := picture(t, shot)
		corner := luma(img.At(5, 5))
		if c.dark != (corner < 80) || !c.dark != (corner > 230) {
			t.Errorf("%s: the paper has a brightness of %d", c.name, corner)
		}
		if n := colours(img); n < 40 {
			t.Errorf("%s: the picture has %d colours: nothing is drawn", c.name, n)
		}
	}
	pdf := filepath.Join(t.TempDir(), "page.pdf")
	b.run(t, file, "--no-pdf-header-footer", "--print-to-pdf="+pdf)
	data, err := os.ReadFile(pdf)
	if err != nil || !bytes.HasPrefix(data, []byte("%PDF-")) || len(data) < 10_000 {
		t.Errorf("the print has %d bytes: %v", len(data), err)
	}
	// A frame is as narrow as a phone; the browser's window is not.
	frame := store(t, "frame.html", []byte(`<!doctype html><body style="margin:0"><iframe style="border:0;width:360px;height:5000px" src="file://`+file+`"></iframe>`))
	shot := filepath.Join(t.TempDir(), "narrow.png")
	b.run(t, frame, "--window-size=520,5000", "--blink-settings=preferredColorScheme=1", "--screenshot="+shot)
	img := picture(t, shot)
	for y := range img.Bounds().Dy() {
		// What is too wide makes the frame scroll, and is cut at its edge.
		if l := luma(img.At(359, y)); l < 200 {
			t.Fatalf("at 360 pixels something is cut at the edge, at height %d", y)
		}
	}
}

func picture(t *testing.T, file string) image.Image {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func luma(c color.Color) int {
	r, g, b, _ := c.RGBA()
	return int(299*r+587*g+114*b) / 1000 >> 8
}

func colours(img image.Image) int {
	seen := map[color.Color]bool{}
	for y := 0; y < img.Bounds().Dy(); y += 2 {
		for x := 0; x < img.Bounds().Dx(); x += 2 {
			seen[img.At(x, y)] = true
		}
	}
	return len(seen)
}
