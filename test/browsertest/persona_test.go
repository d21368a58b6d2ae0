package browsertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/test/agenttest"
	"claudeops/test/loopback"
	"claudeops/test/phonetest"
	"claudeops/test/testtoken"
)

// choose follows the first visible link or button whose name matches, as a person reads it. It is found and clicked at once: a page that
// follows the services may replace it at any time.
func (b *tab) choose(name string) {
	b.t.Helper()
	b.mark()
	b.wait(fmt.Sprintf("something is named %s", name), fmt.Sprintf(`(() => {
		const named = new RegExp(%s);
		const all = [...document.querySelectorAll('a[href], button, summary')];
		const it = all.find((e) => e.checkVisibility() && !e.disabled && named.test((e.getAttribute('aria-label') || e.innerText).trim()));
		it?.click();
		return Boolean(it);
	})()`, quoted(name)))
	b.wait("another page is shown", "!window.sameDocument && document.readyState === 'complete'")
}

// fits fails where the page is wider than the screen.
func (b *tab) fits() {
	b.t.Helper()
	if !eval[bool](b, "document.documentElement.scrollWidth <= window.innerWidth") {
		b.t.Errorf("%s scrolls sideways", eval[string](b, "location.pathname"))
	}
}

// people is an Apprise server that keeps what it is sent.
type people struct {
	mu    sync.Mutex
	sent  []message
	serve *httptest.Server
}

type message struct{ Title, Body string }

func newPeople(t *testing.T) *people {
	t.Helper()
	p := &people{}
	p.serve = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var m message
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil {
			p.sent = append(p.sent, m)
		}
	}))
	t.Cleanup(p.serve.Close)
	return p
}

// about returns the first message with a text.
func (p *people) about(text string) (message, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.sent {
		if strings.Contains(m.Title+"\n"+m.Body, text) {
			return m, true
		}
	}
	return message{}, false
}

// The on-call person has only a phone: a notice, its link, the sign-in, one button, and the problem is gone.
func TestPersona_OnCallApprovesOnAPhone(t *testing.T) {
	t.Parallel()
	told := newPeople(t)
	const public = "https://ops.example.org"
	d := startDaemon(t, t.TempDir(), slices.Concat(agenttest.InOrder(1, agenttest.Escalates(1, 0.02, "jellyfin")), agenttest.InOrder(2, agenttest.Healthy(0.3))),
		"CLAUDEOPS_APPROVAL_TIER=2", "CLAUDEOPS_PUBLIC_URL="+public, "CLAUDEOPS_APPRISE_API="+told.serve.URL+"/notify/phone")
	link := regexp.MustCompile(regexp.QuoteMeta(public) + `(/approvals/\d+)`)
	var notice message
	d.until("the phone gets a notice with a link", func() (ok bool) {
		notice, ok = told.about(public + "/approvals/")
		return ok
	})
	first, _, _ := strings.Cut(notice.Body, "\n")
	if !strings.Contains(notice.Title+first, "jellyfin") || strings.Contains(notice.Body, `{"`) {
		t.Errorf("the notice says %q\n%s", notice.Title, notice.Body)
	}
	b := open(t, d.base)
	b.resize(phone)
	b.visit(link.FindStringSubmatch(notice.Body)[1])
	b.sees("Log in")
	b.fits()
	b.must(b.fill("#token", testtoken.Token))
	b.choose("^Log in$")
	b.sees("jellyfin", "Tier 2")
	b.fits()
	b.choose("^Approve")
	b.fits()
	d.until("the phone is told that it is over", func() bool {
		m, ok := told.about("esolved")
		return ok && strings.Contains(m.Title+m.Body, "jellyfin")
	})
	b.visit("/")
	b.sees("esolved")
	b.fits()
}

// A newcomer starts the demo, follows its link and finds the repaired problem without reading anything.
func TestPersona_ANewcomerSeesARepair(t *testing.T) {
	t.Parallel()
	said := &loopback.Output{}
	base := "http://" + loopback.FreeAddress(t)
	c := exec.Command(buildProgram(t), "demo", "--listen", strings.TrimPrefix(base, "http://"))
	path := os.Getenv("PATH") //nolint:forbidigo // the program finds its tools where the tests do
	c.Env = []string{"PATH=" + path, "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir(), "CLAUDEOPS_DEMO_PACE=0"}
	c.Stdout, c.Stderr = said, said
	must(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(deadline):
			_ = c.Process.Kill()
		}
	})
	b := open(t, base)
	link := regexp.MustCompile(`Open ` + regexp.QuoteMeta(base) + `(\S+) to watch`)
	b.until("the demo prints a link", func() bool { return link.MatchString(said.String()) })
	b.visit(link.FindStringSubmatch(said.String())[1])
	b.sees("mediabox")
	b.until("the terminal shows the repair", func() bool { return strings.Contains(said.String(), "Now your own: claudeops init") })
	b.visit("/")
	b.sees("mediabox")
	b.choose("^Activity")
	b.sees("mediabox", "esolved")
	b.choose("^Incidents")
	b.visit("/incidents/1")
	b.sees("mediabox", "esolved")
}

// The first evening, without Docker, without an agent and without a key: the overview says what is left to do, the forms do the rest, and
// nothing of our own set-up looks like an incident.
func TestPersona_TheFirstEvening(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	mine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(mine.Close)
	ntfy := phonetest.NewNtfy(t)
	file := filepath.Join(t.TempDir(), "claudeops.yaml")
	must(t, os.WriteFile(file, []byte("# my configuration\ntrust: suggest\n"), 0o600))
	d := startDaemon(t, t.TempDir(), nil, "CLAUDEOPS_CLAUDE_BIN=claude", "PATH="+t.TempDir(), "CLAUDEOPS_CONFIG="+file)
	b := d.open(t)
	b.excuse("net::ERR") // the daemon reads its configuration again after each form, and is away for a moment
	b.excuse("Failed to fetch")
	b.visit("/")
	b.sees("Not set up yet", "Set-up: 1 of 5 done", "\"claude\" is not installed", "claudeops agent install", "nothing is watched")
	b.fits()
	b.choose("^Add a service$")
	b.must(b.fill("#setting-name", "shop"))
	b.must(b.fill("#setting-url", mine.URL+"/"))
	b.must(b.fill("#setting-interval", "1s"))
	b.choose("^Preview$")
	b.sees("name: shop", "Checked now: healthy")
	b.fits()
	b.choose("^Save$")
	b.sees("Saved")
	d.ready()
	b.visit("/")
	b.sees("Set-up: 2 of 5 done", "shop")
	b.choose("^Add a target$")
	b.must(b.fill("#setting-target", ntfy.Target("mine")))
	b.choose("^Preview$")
	b.choose("^Save$")
	b.sees("Saved")
	d.ready()
	b.visit("/")
	b.choose("^Send a test$")
	d.until("the test arrives on the phone", func() bool { return len(ntfy.Notes("mine")) > 0 })
	b.visit("/")
	b.sees("Set-up: 3 of 5 done")
	for _, found := range b.axe(allRules) {
		t.Error(found)
	}
	b.visit("/incidents?tab=all")
	if text := b.text(); strings.Contains(text, "Incident 1") {
		t.Errorf("the set-up is an incident:\n%s", text)
	}
	arrived := len(ntfy.Notes("mine"))
	down.Store(true)
	d.until("the phone says that it is down", func() bool { return len(ntfy.Notes("mine")) > arrived })
}

// Back after a week: the overview says what needs somebody, and a click leads to what happened and what it cost.
func TestPersona_BackAfterAWeek(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := open(t, serve(t, f.store).base())
	for _, window := range []size{wide, phone} {
		b.resize(window)
		b.visit("/")
		b.sees("Needs you: 1 approval · 1 incident", "paperless is down", "Est. cost today")
		b.fits()
		b.choose("^Open incident$")
		b.sees("paperless")
		b.fits()
		b.visit("/incidents?tab=all")
		b.sees("grafana lost its data source", "paperless")
		b.fits()
		b.visit("/costs")
		b.sees("Costs")
		b.fits()
	}
}

// An operator comes back after a day: one command says what is open, and names the next one.
func TestPersona_AReturningOperatorFindsTheOpenIncident(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, t.TempDir(), agenttest.InOrder(1, agenttest.Escalates(1, 0.02, "jellyfin")), "CLAUDEOPS_MAX_TIER=1")
	run := func(words ...string) string {
		t.Helper()
		c := exec.Command(buildProgram(t), words...)
		c.Env = d.env
		out, err := c.Output()
		if err != nil {
			t.Fatalf("claudeops %s: %v\n%s", strings.Join(words, " "), err, out)
		}
		return string(out)
	}
	next := regexp.MustCompile(`\(claudeops (incidents show \d+)\)`)
	d.until("the incident is open", func() bool { return next.MatchString(run("status")) })
	words := strings.Fields(next.FindStringSubmatch(run("status"))[1])
	if shown := run(words...); !strings.Contains(shown, "jellyfin") || strings.Contains(shown, `{"`) {
		t.Errorf("claudeops %s says\n%s", strings.Join(words, " "), shown)
	}
	b := d.open(t)
	b.choose("^Incidents")
	b.sees("jellyfin")
	run("incidents", "resolve", words[2], "--reason", "restarted by hand")
	if report := run("incidents", "report", words[2]); !strings.Contains(report, "jellyfin") || !strings.Contains(report, "restarted by hand") {
		t.Errorf("the report says\n%s", report)
	}
	if shown := run("status"); next.MatchString(shown) {
		t.Errorf("status still asks\n%s", shown)
	}
}
