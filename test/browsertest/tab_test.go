package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// size is a window.
type size struct {
	name          string
	width, height int
}

var (
	wide  = size{"1280", 1280, 800}
	phone = size{"390", 390, 844}
)

// tab is one tab of the browser. It complains at the end of its test about everything that no page may do.
type tab struct {
	t    *testing.T
	ctx  context.Context //nolint:containedctx // it is how the tab is named to chromedp
	base string

	looks int // how many pages were looked at

	mu      sync.Mutex
	wrong   []string
	excused []string // parts of messages that the test expects
}

// watchdog runs before anything of a page does. What hostile text calls, and what the content policy stops, is told.
const watchdog = `(() => {
  const tell = (what) => report(JSON.stringify(what));
  for (const name of ['pwned', 'alert', 'confirm', 'prompt']) window[name] = (...args) => { tell({kind: 'script ran', text: name + '(' + args.join() + ') at ' + location.href}); return false; };
  document.addEventListener('securitypolicyviolation', (e) => tell({kind: 'policy violation', text: e.violatedDirective + ' ' + e.blockedURI + ' in ' + e.sourceFile + ':' + e.lineNumber + ' ' + e.sample}));
})();`

// abortedByHtmx is what htmx logs when a request of its own is replaced or its page is left.
const abortedByHtmx = "AbortError"

// open makes a tab for the server at base.
func open(t *testing.T, base string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, base: base}
	console := chromedp.Console(ctx)
	reports := chromedp.Events(ctx, runtime.BindingCalled)
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	var readers sync.WaitGroup
	readers.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			b.hear(m)
		}
	})
	readers.Go(func() {
		for e, err := range reports {
			if err != nil {
				return
			}
			b.told(e.Payload)
		}
	})
	readers.Go(func() {
		for e, err := range requests {
			if err != nil {
				return
			}
			b.requested(e.Request.URL)
		}
	})
	t.Cleanup(func() {
		b.complain()
		cancel()
		readers.Wait()
	})
	_, err := chromedp.Call(ctx, runtime.AddBinding, runtime.AddBindingParams{Name: "report"})
	b.must(err)
	_, err = chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchdog})
	b.must(err)
	// Tabs are open side by side; each shall believe that it is the one in front.
	_, err = chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	b.must(err)
	b.resize(wide)
	return b
}

func (b *tab) hear(m chromedp.ConsoleMessage) {
	if m.Type != chromedp.ConsoleError && m.Type != chromedp.ConsoleException && m.Source != "security" {
		return
	}
	b.note(fmt.Sprintf("console %s (%s): %s at %s:%d", m.Type, m.Source, m.Text, m.URL, m.Line))
}

func (b *tab) told(payload string) {
	var what struct{ Kind, Text string }
	if err := json.Unmarshal([]byte(payload), &what); err != nil {
		what.Kind = payload
	}
	b.note(what.Kind + ": " + what.Text)
}

func (b *tab) requested(url string) {
	if !strings.HasPrefix(url, b.base+"/") && !strings.HasPrefix(url, "data:") {
		b.note("request that leaves the server: " + url)
	}
}

func (b *tab) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, what)
}

// excuse takes messages with that text for what the test itself brings about.
func (b *tab) excuse(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.excused = append(b.excused, text)
}

func (b *tab) complain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	excused := append([]string{abortedByHtmx}, b.excused...)
	wrong := b.wrong
	b.wrong = nil
	for _, what := range wrong {
		if !slices.ContainsFunc(excused, func(text string) bool { return strings.Contains(what, text) }) {
			b.t.Error(what)
		}
	}
}

// on lets a part of the test have the tab, until the function it returns is called.
func (b *tab) on(t *testing.T) func() {
	whole := b.t
	b.t = t
	return func() {
		b.complain()
		b.t = whole
	}
}

func (b *tab) must(err error) {
	b.t.Helper()
	must(b.t, err)
}

// do runs actions within the deadline.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, deadline)
	defer cancel()
	b.must(chromedp.Do(ctx, actions...))
}

// visit opens a page and returns its status.
func (b *tab) visit(path string) int {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, deadline)
	defer cancel()
	response, err := chromedp.Run(ctx, chromedp.NavigateResponse(b.base+path))
	if err != nil {
		b.t.Fatalf("open %s: %v", path, err)
	}
	return int(response.Status)
}

func (b *tab) resize(s size) {
	b.t.Helper()
	var options []chromedp.EmulateViewportOption
	if s == phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	b.do(chromedp.EmulateViewport(int64(s.width), int64(s.height), options...))
}

// prefer sets what the reader's system prefers: light or dark. Nothing moves.
func (b *tab) prefer(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	b.must(err)
}

// eval returns the value of an expression, which may be a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := try[T](b, expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func try[T any](b *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, deadline)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// wait polls until the expression holds. The page may change its document meanwhile.
func (b *tab) wait(what, expression string) {
	b.t.Helper()
	b.until(what, func() bool {
		held, err := try[bool](b, "Boolean("+expression+")")
		return err == nil && held
	})
}

// until polls until something holds.
func (b *tab) until(what string, holds func() bool) {
	b.t.Helper()
	end := time.Now().Add(deadline)
	for !holds() {
		if time.Now().After(end) {
			b.t.Fatalf("did not come true: %s\n%s", what, b.text())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// text is what the page shows, for when a test fails.
func (b *tab) text() string {
	shown, err := try[string](b, `location.href + '\n' + document.querySelector('main')?.innerText`)
	if err != nil {
		return err.Error()
	}
	return shown[:min(len(shown), 2500)]
}

// sees waits until the page shows a text.
func (b *tab) sees(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.wait(fmt.Sprintf("the page shows %q", text), fmt.Sprintf("document.body?.innerText.includes(%s)", quoted(text)))
	}
}

// click clicks the first element that matches and can be seen.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.wait(selector+" can be clicked", fmt.Sprintf("document.querySelector(%s)?.checkVisibility() && !document.querySelector(%[1]s).disabled", quoted(selector)))
	b.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// follow clicks and waits for the page this leads to.
func (b *tab) follow(selector string) {
	b.t.Helper()
	b.mark()
	b.click(selector)
	b.wait("another page is shown", "!window.sameDocument && document.readyState === 'complete'")
}

// press sends keys to what has the focus.
func (b *tab) press(keys string, options ...chromedp.KeyOption) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys, options...))
}

// strike sends a key alone. The protocol sends characters apart from their keys, and under load one arrives although the
// page took its key.
func (b *tab) strike(key string, code int64) {
	b.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
		_, err := chromedp.Call(b.ctx, input.DispatchKeyEvent,
			input.DispatchKeyEventParams{Type: kind, Key: key, WindowsVirtualKeyCode: code, NativeVirtualKeyCode: code})
		b.must(err)
	}
}

// mark makes the document known again, so that a reload is noticed.
func (b *tab) mark() {
	b.t.Helper()
	eval[bool](b, "window.sameDocument = true")
}

// same fails when the page was loaded again since it was marked.
func (b *tab) same() {
	b.t.Helper()
	if !eval[bool](b, "window.sameDocument === true") {
		b.t.Error("the page was loaded again")
	}
}

// live waits until the page follows its stream.
func (b *tab) live() {
	b.t.Helper()
	b.wait("the page is live", `document.querySelector('#stream')?.dataset.state === 'live'`)
}

func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(raw)
}

// fill writes into a field as a person does.
func (b *tab) fill(selector, text string) error {
	ctx, cancel := context.WithTimeout(b.ctx, deadline)
	defer cancel()
	return chromedp.Do(ctx, chromedp.SendKeys(chromedp.CSS(selector), text, chromedp.NodeVisible))
}
