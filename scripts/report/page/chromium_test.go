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
	// The processes that it starts end with it.
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

// TestInChromium shows the worst sessions that there are, in frames of a page that
// may do everything: their texts are texts, nothing of them runs, and nothing leaves
// them. A page that holds what the template would never let through is stopped by
// its own policy. The frames may see each other, which is more than a file may.
func TestInChromium(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	const evil = `</style></title></svg><script>document.title="owned"</script><img src=http://recorder.test/a onerror='document.title="owned"'><link rel=stylesheet href=http://recorder.test/b>` +
		`<a href="javascript:document.title='owned'">x</a><iframe src=http://recorder.test/c></iframe><style>@import "http://recorder.test/d"</style><meta http-equiv=refresh content="0;url=http://recorder.test/e">`
	planted := bytes.Replace(written(t, read(t, filepath.Join(sessions, "clean"))), []byte("<main>"),
		[]byte(`<main><script>document.title = "owned"</script><img src="http://recorder.test/f" onerror="document.title='owned'"><iframe src="http://recorder.test/g"></iframe>`), 1)
	pages := [][]byte{written(t, poisoned(evil)), written(t, read(t, filepath.Join(sessions, "hostile"))), planted}
	var frames strings.Builder
	for _, data := range pages {
		fmt.Fprintf(&frames, `<iframe src="file://%s"></iframe>`, store(t, "page.html", data))
	}
	control := store(t, "control.html", []byte(`<!doctype html><title>before</title><img src="http://recorder.test/pixel">`+frames.String()+`<script>
onload = () => {
	document.title = "owned";
	for (const f of document.querySelectorAll("iframe")) {
		document.body.appendChild(document.createElement("pre")).textContent = f.contentDocument.documentElement.outerHTML;
	}
}</script>`))
	dom := b.run(t, control, "--allow-file-access-from-files", "--dump-dom")
	got := b.requests()
	own := func(r string) bool { return r == "GET recorder.test/pixel" }
	if !slices.ContainsFunc(got, own) || !bytes.Contains(dom, []byte("<title>owned</title>")) {
		t.Fatalf("the recorder or the browser does not work: %q, %.200s", got, dom)
	}
	if got = slices.DeleteFunc(got, own); len(got) > 0 {
		t.Errorf("the pages asked for %q", got)
	}
	var shown []string
	for n := range parsed(t, dom).Descendants() {
		if n.Data == "pre" {
			shown = append(shown, inner(n))
		}
	}
	if len(shown) != len(pages) {
		t.Fatalf("%d pages are shown: %.400s", len(shown), dom)
	}
	for i, text := range shown {
		if strings.Contains(text, "<title>owned") || !strings.Contains(text, "Ralph session") {
			t.Errorf("page %d: something ran: %.300s", i, text)
		}
	}
	inert(t, parsed(t, []byte(shown[0])))
	inert(t, parsed(t, []byte(shown[1])))
	if strings.Count(inner(parsed(t, []byte(shown[0]))), `<script>document.title="owned"`) < 10 {
		t.Error("the texts do not stand on the page")
	}
	if !strings.Contains(shown[2], "http://recorder.test/f") {
		t.Error("nothing was planted")
	}
}

// TestPicturesInChromium takes the page's picture in light and dark, wide and
// narrow, and prints it.
func TestPicturesInChromium(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	file := store(t, "clean.html", written(t, read(t, filepath.Join(sessions, "clean"))))
	shot, pdf := filepath.Join(t.TempDir(), "dark.png"), filepath.Join(t.TempDir(), "page.pdf")
	b.run(t, file, "--blink-settings=preferredColorScheme=0", "--window-size=1200,900", "--screenshot="+shot, "--no-pdf-header-footer", "--print-to-pdf="+pdf)
	drawn(t, "dark", picture(t, shot), true)
	data, err := os.ReadFile(pdf)
	if err != nil || !bytes.HasPrefix(data, []byte("%PDF-")) || len(data) < 10_000 {
		t.Errorf("the print has %d bytes: %v", len(data), err)
	}
	// A frame is as narrow as a phone; the browser's window is not.
	frames := store(t, "frames.html", []byte(`<!doctype html><body style="margin:0;white-space:nowrap"><iframe style="border:0;width:360px;height:5000px" src="file://`+file+
		`"></iframe><iframe style="border:0;width:1600px;height:5000px" src="file://`+file+`"></iframe>`))
	shot = filepath.Join(t.TempDir(), "light.png")
	b.run(t, frames, "--blink-settings=preferredColorScheme=1", "--window-size=1960,5000", "--screenshot="+shot)
	light := picture(t, shot)
	drawn(t, "light", light, false)
	for y := range light.Bounds().Dy() {
		// What is too wide makes the frame scroll, and is cut at its edge.
		if l := luma(light.At(359, y)); l < 200 {
			t.Fatalf("at 360 pixels something is cut at the edge, at height %d", y)
		}
	}
}

// drawn says whether the paper is dark or not, and whether anything is on it.
func drawn(t *testing.T, name string, img image.Image, dark bool) {
	t.Helper()
	corner := luma(img.At(5, 5))
	if dark != (corner < 80) || !dark != (corner > 230) {
		t.Errorf("%s: the paper has a brightness of %d", name, corner)
	}
	if n := colours(img); n < 40 {
		t.Errorf("%s: the picture has %d colours: nothing is drawn", name, n)
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
