package browsertest

import (
	"bytes"
	"context"
	"flag"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"claudeops/internal/web"
)

// pictures is where the pictures of the documentation are written; without it none are made.
var pictures = flag.String("pictures", "", "write pictures of the demo into this `folder`")

// TestPicturesOfTheDemo plays the demo and photographs it when its incident is repaired; make screenshots runs it.
func TestPicturesOfTheDemo(t *testing.T) {
	if *pictures == "" {
		t.Skip("run make screenshots to write them")
	}
	b := open(t, startDemo(t))
	b.visit("/sessions")
	repaired := time.Now().Add(10 * deadline) // it plays at the pace of its audience
	for !eval[bool](b, `Boolean(document.querySelector('table.chains')?.innerText.includes('Resolved'))`) {
		if time.Now().After(repaired) {
			t.Fatal("the incident is not repaired\n" + b.text())
		}
		<-time.After(200 * time.Millisecond)
	}
	// The demo is one incident of a minute. A question to people and the costs of a month come from the journal of the other tests.
	month := open(t, serve(t, newFixture(t).store, func(o *web.Options) { o.Environments, o.Version = o.Environments[:1], "dev" }).base())
	for _, scheme := range []string{"light", "dark"} {
		for _, at := range []struct {
			tab        *tab
			name, path string
		}{{b, "overview", "/"}, {b, "session", "/sessions/3"}, {month, "incidents", "/incidents"}, {month, "costs", "/costs"}} {
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

// startDemo starts the demo on a free port and returns where its pages are.
func startDemo(t *testing.T) string {
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
	address := regexp.MustCompile(`Open (http://\S+) to watch`)
	for end := time.Now().Add(2 * deadline); ; <-time.After(20 * time.Millisecond) {
		if found := address.FindStringSubmatch(said.String()); found != nil {
			return found[1]
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
