//go:build pictures

package browsertest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// pictures is where pictures are written.
var pictures = flag.String("pictures", filepath.Join("..", "..", "docs", "img"), "write pictures into this `folder`")

// TestPicturesOfTheDemo plays the demo and photographs it when its incident is repaired; make screenshots runs it.
func TestPicturesOfTheDemo(t *testing.T) {
	base, signIn := startDemo(t, "CLAUDEOPS_DEMO_PACE=0")
	b := open(t, base)
	b.visit(signIn)
	b.visit("/")
	b.until("the incident is repaired", func() bool {
		<-time.After(time.Second)
		b.visit("/")
		return strings.Contains(b.text(), "Resolved")
	})
	for name, path := range pictured() {
		for _, scheme := range []string{"light", "dark"} {
			b.prefer(scheme)
			b.resize(wide)
			b.visit(path)
			b.photograph(name+"-"+scheme, wide)
		}
		b.prefer("light")
		b.resize(phone)
		b.visit(path)
		b.photograph(name+"-phone", phone)
		page := eval[string](b, fmt.Sprintf(`fetch(%q).then(r => r.text())`, path))
		b.must(os.WriteFile(filepath.Join(*pictures, name+".sha256"), []byte(imprint(page)), 0o644))
	}
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
