//go:build pictures

package browsertest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"claudeops/internal/web"
)

// pictures is where pictures are written.
var pictures = flag.String("pictures", filepath.Join("..", "..", "docs", "img"), "write pictures into this `folder`")

// TestPicturesOfTheDemo plays the demo and photographs it when its incident is repaired; make screenshots runs it.
func TestPicturesOfTheDemo(t *testing.T) {
	base, signIn := startDemo(t)
	b := open(t, base)
	b.visit(signIn)
	b.visit("/sessions")
	repaired := time.Now().Add(10 * deadline) // it plays at the pace of its audience
	for !eval[bool](b, `Boolean(document.querySelector('table.cycles')?.innerText.includes('Resolved'))`) {
		if time.Now().After(repaired) {
			t.Fatal("the incident is not repaired\n" + b.text())
		}
		<-time.After(200 * time.Millisecond)
	}
	cycle := eval[string](b, `[...document.querySelectorAll('table.cycles tbody tr')].find(r => r.innerText.includes('Resolved')).querySelector('a[href^="/cycles/"]').pathname`)
	// The demo is one incident of a minute. A question to people and the costs of a month come from the journal of the other tests.
	month := open(t, serve(t, newFixture(t).store, func(o *web.Options) { o.Environments, o.Version = o.Environments[:1], "dev" }).base())
	for _, scheme := range []string{"light", "dark"} {
		for _, at := range []struct {
			tab        *tab
			name, path string
		}{
			{b, "overview", "/"},
			{b, "session", "/sessions/3"},
			{b, "cycle", cycle},
			{b, "incident", "/incidents/1"},
			{b, "services", "/services"},
			{month, "incidents", "/incidents"},
			{month, "costs", "/costs"},
		} {
			at.tab.prefer(scheme)
			at.tab.visit(at.path)
			at.tab.photograph(at.name+"-"+scheme, wide)
		}
	}
	b.prefer("light")
	b.resize(phone)
	b.visit("/sessions/3")
	b.photograph("phone-session", phone)
}

// TestPicturesOfEveryPage photographs every page in both themes and widths, as long as it is, for whoever changes how they look:
// go test -tags pictures ./test/browsertest -run EveryPage -pictures /tmp/pages.
func TestPicturesOfEveryPage(t *testing.T) {
	f := newFixture(t)
	b := open(t, serve(t, f.store).base())
	for n, s := range sights(f) {
		t.Run(s.name, func(t *testing.T) {
			defer b.on(t)()
			if s.status != 0 {
				b.excuse("the server responded with a status of")
			}
			b.inAllLights(fmt.Sprintf("%02d-%s", n, strings.ReplaceAll(s.name, " ", "-")), s)
		})
	}
}

func (b *tab) inAllLights(name string, s sight) {
	b.t.Helper()
	for _, window := range []size{wide, phone} {
		b.resize(window)
		for _, scheme := range []string{"light", "dark"} {
			b.prefer(scheme)
			b.visit(s.path)
			if s.then != "" {
				eval[bool](b, s.then+"; true")
			}
			b.whole(fmt.Sprintf("%s-%s-%s", name, window.name, scheme))
		}
	}
}

// whole writes a page from its top to its end.
func (b *tab) whole(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, deadline)
	defer cancel()
	raw, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	b.must(err)
	b.must(os.MkdirAll(*pictures, 0o755))
	b.must(os.WriteFile(filepath.Join(*pictures, name+".png"), raw, 0o644))
}

// startDemo starts the demo on a free port and returns where its pages are, and the path that signs in.
func startDemo(t *testing.T) (base, signIn string) {
	t.Helper()
	c := exec.Command(buildProgram(t), "demo", "--listen", freeAddress(t))
	said := &lockedBuffer{}
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait() // it is ended by the signal
	})
	address := regexp.MustCompile(`Open (http://[^/]+)(/\S+) to watch`)
	for end := time.Now().Add(2 * deadline); ; <-time.After(20 * time.Millisecond) {
		if found := address.FindStringSubmatch(said.String()); found != nil {
			return found[1], found[2]
		}
		if time.Now().After(end) {
			t.Fatalf("the demo does not start\n%s", said)
		}
	}
}

// photograph writes what the window shows, as small as PNG can.
func (b *tab) photograph(name string, s size) {
	b.t.Helper()
	b.wait("fonts and pictures are there", `document.fonts.status === 'loaded' && document.readyState === 'complete'`)
	if eval[bool](b, `Boolean(document.querySelector('#stream'))`) {
		b.wait("the stream is up", `['live', 'ended'].includes(document.querySelector('#stream').dataset.state)`)
	}
	ctx, cancel := context.WithTimeout(b.ctx, deadline)
	defer cancel()
	raw, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	b.must(err)
	picture, err := png.Decode(bytes.NewReader(raw))
	b.must(err)
	if got := picture.Bounds().Size(); got.X != s.width || got.Y != s.height {
		b.t.Errorf("%s is %v", name, got)
	}
	var small bytes.Buffer
	b.must((&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, picture))
	if small.Len() > len(raw) {
		small = *bytes.NewBuffer(raw)
	}
	b.must(os.MkdirAll(*pictures, 0o755))
	b.must(os.WriteFile(filepath.Join(*pictures, name+".png"), small.Bytes(), 0o644))
}
