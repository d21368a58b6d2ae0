// Package browsertest opens the pages in a real browser and uses them as people do. One headless Chromium serves the whole
// package; every test has tabs of its own, without the cookies of the others.
package browsertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"claudeops/test/agenttest"
	"claudeops/test/needs"
)

// deadline is how long anything on a page may take, on a busy machine.
const deadline = time.Minute

func TestMain(m *testing.M) {
	agenttest.RunIfFake()
	flag.Parse()
	code := m.Run()
	closeBrowser()
	removeProgram()
	os.Exit(code)
}

// chromium is the one browser of the package, started by the first test that needs it.
var chromium struct {
	once  sync.Once
	ctx   context.Context //nolint:containedctx // it is how the browser is named to chromedp
	close func()
	err   error
}

// browser returns the context of the running browser.
func browser(t testing.TB) context.Context {
	t.Helper()
	chromium.once.Do(startBrowser)
	if chromium.err != nil {
		needs.End(t, fmt.Errorf("start Chromium: %w", chromium.err))
	}
	return chromium.ctx
}

func startBrowser() {
	path, err := findBrowser()
	if err != nil {
		chromium.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.DisableGPU, chromedp.WindowSize(wide.width, wide.height),
		chromedp.WSURLReadTimeout(time.Minute),
		// It asks nobody but the server under test.
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-domain-reliability", true), chromedp.Flag("no-pings", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("lang", "en-US"), chromedp.Env("TZ=UTC"),
	)
	// Root cannot have the sandbox, and containers rarely can. What is opened comes from these tests alone.
	options = append(options, chromedp.NoSandbox)
	allocator, closeAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeContext := chromedp.NewContext(allocator)
	chromium.close = func() {
		closeContext()
		closeAllocator()
	}
	if err := chromedp.Do(ctx); err != nil {
		chromium.err = fmt.Errorf("%s: %w", path, err)
		return
	}
	chromium.ctx = ctx
}

// findBrowser looks for Chromium where CHROME says, then on the path.
func findBrowser() (string, error) {
	if path := os.Getenv("CHROME"); path != "" { //nolint:forbidigo // a setting of the tests, not of the program
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", needs.Absent("Chromium (on the path or named by CHROME)")
}

func closeBrowser() {
	if chromium.close != nil {
		chromium.close()
	}
}
