package browsertest

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"claudeops/internal/config"
	host "claudeops/internal/daemon"
	"claudeops/internal/web"
)

// sight is a page in one of its states.
type sight struct {
	name, path string
	status     int    // 200 unless given
	then       string // what is done to it first, as a script
	again      bool   // another sight is of the same template: axe looks at it only where it looks at all
}

func sights(f *fixture) []sight {
	return []sight{
		{name: "overview", path: "/"},
		{name: "search", path: "/search", again: true},
		{name: "found", path: "/search?q=jellyfin"},
		{name: "sessions", path: "/sessions"},
		{name: "filtered sessions", path: "/sessions?status=resolved&tier=2", again: true},
		{name: "sessions without match", path: "/sessions?q=nothing-like-this", again: true},
		{
			name: "session with all records", path: path("/sessions/%d", f.repaired[6]),
			then: `for (const d of document.querySelectorAll('details')) d.open = true`,
		},
		{name: "session with recovery", path: path("/sessions/%d", f.repaired[3]), again: true},
		{name: "handoff of a session", path: path("/sessions/%d?tab=handoff", f.repaired[0])},
		{name: "result of a session", path: path("/sessions/%d?tab=result", f.repaired[6])},
		{name: "recovery of a session", path: path("/sessions/%d?tab=recovery", f.repaired[3])},
		{name: "guard of a session", path: path("/sessions/%d?tab=guard", f.repaired[3])},
		{name: "files of a session", path: path("/sessions/%d?tab=files", f.repaired[6])},
		{name: "session with denials", path: path("/sessions/%d", f.denied), again: true},
		{name: "running session", path: path("/sessions/%d", f.running)},
		{name: "long session", path: path("/sessions/%d", f.long), again: true},
		{name: "incidents", path: "/incidents"},
		{name: "open incidents", path: "/incidents?tab=open", again: true},
		{name: "resolved incidents", path: "/incidents?tab=resolved", again: true},
		{name: "incident", path: path("/incidents/%d", f.incident.ID)},
		{name: "approval", path: path("/approvals/%d", f.approval.ID)},
		{name: "services", path: "/services"},
		{name: "silences", path: "/silences", again: true},
		{name: "notifications", path: "/notifications", again: true},
		{name: "costs", path: "/costs", then: `for (const d of document.querySelectorAll('details')) d.open = true`},
		{name: "costs by model", path: "/costs?by=model", again: true},
		{name: "events", path: "/events"},
		{name: "memory", path: "/memory"},
		{name: "config", path: "/config"},
		{name: "form for a service", path: "/settings/services/new"},
		{name: "form for a heartbeat", path: "/settings/services/jellyfin/probes/new?type=heartbeat"},
		{name: "form for a target", path: "/settings/notifications/new"},
		{name: "form for trust", path: "/settings/trust?environment=default"},
		{name: "service with forms", path: "/services/default/jellyfin"},
		{name: "error", path: "/nothing-here", status: http.StatusNotFound},
		{name: "run now dialog", path: "/sessions", then: `document.querySelector('#run-now').showModal()`},
		{name: "keyboard dialog", path: "/sessions", then: `document.querySelector('#keys').showModal()`},
	}
}

func TestEveryPageIsAccessibleInBothThemesAndWidths(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lookAtAll(t, serve(t, f.store, withForms(t)).base(), sights(f))
}

// withForms gives a site a configuration file that its forms change.
func withForms(t *testing.T) func(*web.Options) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "claudeops.yaml")
	must(t, os.WriteFile(path, []byte("# mine\nservices:\n  - name: jellyfin # the films\ntrust: suggest\n"), 0o600))
	load := func(instead map[string][]byte) (*config.Config, error) {
		return config.Load(config.Input{ConfigPath: path, Dir: dir, Environ: []string{"HOME=" + dir}, Instead: instead})
	}
	loaded, err := load(nil)
	must(t, err)
	file := host.ConfigFile(host.Options{
		Config: loaded, LoadConfig: load, Reload: func(context.Context) error { return nil }, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	return func(o *web.Options) { o.ConfigFile = file }
}

// A form is filled in without a script of ours, refused, corrected, previewed and saved; every page of it is accessible.
func TestAFormIsAccessibleToItsEnd(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t, newJournal(t).store, withForms(t)).base())
	look := func() {
		t.Helper()
		b.everyWay(sight{path: "the form"})
		b.resize(wide)
	}
	b.excuse("the server responded with a status of 4")
	b.visit("/settings/services/new")
	b.must(b.fill("#setting-name", "grafana"))
	b.must(b.fill("#setting-url", "not a URL"))
	b.follow("main .access-form button")
	b.sees("Nothing was written.")
	look()
	b.must(b.fill("#setting-url", "http://127.0.0.1:3000/api/health"))
	b.follow("main .access-form button")
	b.sees("- name: grafana")
	look()
	b.follow("main form button.primary")
	b.sees("Saved")
	look()
}

func TestEmptyPagesAreAccessibleToo(t *testing.T) {
	t.Parallel()
	var all []sight
	for _, p := range []string{"/", "/sessions", "/incidents", "/services", "/costs", "/events", "/memory"} {
		all = append(all, sight{name: p, path: p, again: true})
	}
	lookAtAll(t, serve(t, newJournal(t).store).base(), all)
}

func TestTheLoginPageIsAccessible(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	base := serve(t, j.store, func(o *web.Options) { o.Token = "correct-horse-battery" }).base()
	b := open(t, base)
	b.lookAt(sight{path: "/login"})
	b.excuse("the server responded with a status of 4")
	b.visit("/costs")
	b.must(b.fill("#token", "wrong"))
	b.follow("main form button")
	b.sees("Wrong token.")
	if found := b.axe(allRules); len(found) > 0 {
		t.Error(found)
	}
	b.must(b.fill("#token", "correct-horse-battery"))
	b.follow("main form button")
	b.sees("Costs")
	b.live()
}

// lookAtAll checks pages in two tabs side by side.
func lookAtAll(t *testing.T, base string, all []sight) {
	t.Helper()
	for half := range slices.Chunk(all, (len(all)+1)/2) {
		t.Run("tab", func(t *testing.T) {
			t.Parallel()
			b := open(t, base)
			for _, s := range half {
				t.Run(s.name, func(t *testing.T) {
					defer b.on(t)()
					b.lookAt(s)
				})
			}
		})
	}
}

// lookAt opens a page and checks it every way.
func (b *tab) lookAt(s sight) {
	b.t.Helper()
	if s.status != 0 {
		b.excuse("the server responded with a status of")
	}
	b.resize(wide)
	if got, want := b.visit(s.path), max(s.status, http.StatusOK); got != want {
		b.t.Fatalf("%s gives %d", s.path, got)
	}
	if s.then != "" {
		eval[bool](b, s.then+"; true")
	}
	b.everyWay(s)
}

// everyWay checks what is shown in both themes and both widths; in the short form each template by the rules of axe in one theme and
// width, in turn.
func (b *tab) everyWay(s sight) {
	b.t.Helper()
	b.looks++
	for _, window := range []size{wide, phone} {
		b.resize(window)
		if wider := b.overflow(); wider != "" {
			b.t.Errorf("%s at %s px shows too little: %s", s.path, window.name, wider)
		}
		for _, scheme := range []string{"light", "dark"} {
			b.prefer(scheme)
			// Each theme and each width gets every rule once, and every pair of them the rules about colours.
			rules, pair := colourRules, (window == wide) == (scheme == "light")
			if pair {
				rules = allRules
			}
			if testing.Short() && (s.again || !pair || (window == wide) != (b.looks%2 == 0)) {
				continue
			}
			for _, found := range b.axe(rules) {
				b.t.Errorf("%s, %s, %s px: %s", s.path, scheme, window.name, found)
			}
		}
	}
}
