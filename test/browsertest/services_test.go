package browsertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"claudeops/internal/ops"
	"claudeops/internal/web"
)

// withServices gives the services of the fixture what their pages show: dependencies, actions, maintenance, walls.
func withServices(o *web.Options) {
	restart := []ops.ActionSpec{{
		Name: "restart", Kind: ops.ActionCommand, Description: "Restart the container", Run: []string{"docker", "restart", "paperless"},
		Tier: ops.Tier2, Counts: "restart",
	}}
	inventory := ops.Inventory{Services: []ops.Service{
		{Name: "jellyfin", Probed: true, DependsOn: []string{"postgres"}},
		{Name: "grafana", Probed: true, DependsOn: []string{"postgres", "paperless"}},
		{Name: "paperless", Probed: true, Group: "home", DependsOn: []string{"postgres"}, Actions: restart},
		{Name: "postgres", Probed: true},
	}}
	o.Environments = slices.Clone(o.Environments)
	o.Environments[0].Policy.Inventory = inventory
	o.Environments[0].Watch.Maintenance = []ops.Maintenance{{Name: "nightly backup", Group: "home", Schedule: "sun 02:00", Length: time.Hour}}
	o.Host = "browsertest"
	o.Walls = func() []web.Wall {
		return []web.Wall{{Name: "landlock", State: "on", Detail: "ABI 6"}, {Name: "seccomp", State: "missing", Missing: true, Detail: "not built in"}}
	}
}

func withRecords(t *testing.T, f *fixture) {
	t.Helper()
	_, err := f.store.Watch.AddSilence(t.Context(), ops.Silence{
		Environment: "default", Service: "paperless", Reason: "the disk is replaced", Author: "alice", Until: time.Now().Add(time.Hour),
	})
	f.must(err)
	_, err = f.store.People.AddMemory(t.Context(), ops.Memory{
		Environment: "default", Service: "paperless", Category: "timing", Observation: "It needs two minutes after a start.", Confidence: 0.8,
		Source: "operator",
	})
	f.must(err)
	_, err = f.store.Acts.RequestAction(t.Context(), ops.ActionRun{
		Environment: "default", Service: "paperless", Action: "restart", Kind: ops.ActionCommand, Tier: ops.Tier2, Person: "alice",
		Why: "it hangs", Does: "docker restart paperless",
	}, time.Now())
	f.must(err)
}

func newPages() []sight {
	const unfold = `for (const d of document.querySelectorAll('main details')) d.open = true`
	return []sight{
		{name: "service", path: "/services/default/paperless"},
		{name: "service over a month", path: "/services/default/grafana?range=30d", then: unfold},
		{name: "service over a week", path: "/services/default/jellyfin?range=7d"},
		{name: "service without checks", path: "/services/staging/postgres"},
		{name: "silence of a service", path: "/services/default/paperless", then: `document.querySelector('#silence').showModal()`},
		{name: "services over a day", path: "/services?range=24h", then: unfold},
		{name: "approvals", path: "/approvals"},
		{name: "hosts", path: "/hosts"},
		{name: "guard", path: "/guard"},
		{name: "denials", path: "/guard?verdict=deny"},
		{name: "more pages", path: "/", then: `if (innerWidth < 640) document.querySelector('details.more').open = true`},
		{name: "filtered events", path: "/events?level=warning&service=jellyfin"},
	}
}

func TestTheNewPagesAreAccessible(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	withRecords(t, f)
	lookAtAll(t, serve(t, f.store, withServices).base(), newPages())
}

// TestBarsAreReadByKeyboard goes along the bars of a service: one stop of the Tab key, then arrows.
func TestBarsAreReadByKeyboard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := open(t, serve(t, f.store, withServices).base())
	b.visit("/services/default/paperless?range=24h")
	b.live()
	b.do(chromedp.Focus(chromedp.CSS(`#history .bars`)))
	b.press(kb.End)
	tip := func() string { return eval[string](b, `document.querySelector('#history .bar-tip').textContent`) }
	b.wait("the last bar is told", `document.querySelector('#history .bar-tip').textContent.includes(' to ')`)
	last := tip()
	b.press(kb.ArrowLeft)
	b.wait("the one before is told", fmt.Sprintf(`document.querySelector('#history .bar-tip').textContent !== %q`, last))
	for range 24 {
		if strings.Contains(tip(), "Down") {
			break
		}
		b.press(kb.ArrowLeft)
	}
	if got := tip(); !strings.Contains(got, "Down, 1 check, connection refused") {
		t.Errorf("a bar tells %q", got)
	}
	if n := eval[int](b, `document.querySelectorAll('#history [tabindex="0"]').length`); n > 2 {
		t.Errorf("%d stops of the Tab key", n)
	}
	b.press(kb.Tab)
	b.wait("it is gone with the focus", `document.querySelector('#history .bar-tip').textContent === ''`)
}

// TestTimesAreTheReadersOwn reads pages in another zone.
func TestTimesAreTheReadersOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := open(t, serve(t, f.store, withServices).base())
	_, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "America/St_Johns"})
	b.must(err)
	const wrong = `[...document.querySelectorAll('main time[datetime]')].filter((e) => e.checkVisibility()).flatMap((e) => {
		const date = new Date(e.dateTime), two = (n) => String(n).padStart(2, '0');
		const clock = e.textContent.match(/(\d\d):(\d\d)/);
		const right = !clock || clock[0] === two(date.getHours()) + ':' + two(date.getMinutes());
		return right && e.title.endsWith('America/St_Johns') ? [] : [e.outerHTML];
	})`
	for _, p := range []string{
		"/", "/services?range=24h", "/services/default/paperless", "/events", "/incidents?tab=open", "/guard", "/memory", "/approvals", "/hosts",
		path("/sessions/%d", f.repaired[6]),
	} {
		b.visit(p)
		b.wait("the zone is named", `document.querySelector('#zone').textContent === 'America/St_Johns'`)
		for _, found := range eval[[]string](b, wrong) {
			t.Errorf("%s shows %s", p, found)
		}
	}
	b.visit("/services/default/paperless?range=24h")
	if !eval[bool](b, `[...document.querySelectorAll('#times text[data-time]')].every((e) => e.textContent.endsWith(':30'))`) {
		t.Error("the axis is in another zone")
	}
	if !eval[bool](b, `[...document.querySelectorAll('#history rect[data-begin] title')].every((e) => /:30(:00)? to /.test(e.textContent))`) {
		t.Error("the bars are in another zone")
	}
}

// TestFiltersStayInOneRow measures the filters of every list at many widths.
func TestFiltersStayInOneRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	withRecords(t, f)
	b := open(t, serve(t, f.store, withServices).base())
	for _, p := range []string{
		"/services?q=a&state=ok", "/events?level=info", "/silences?environment=default", "/memory?service=paperless", "/costs", "/guard?verdict=deny",
		"/notifications", "/incidents?tab=open",
	} {
		b.resize(wide)
		b.visit(p)
		for width := 390; width <= 1600; width += 110 {
			b.resize(size{"any", width, 800})
			if wider := b.overflow(); wider != "" {
				t.Errorf("%s at %d px shows too little: %s", p, width, wider)
			}
			for _, found := range eval[[]string](b, oneRow) {
				t.Errorf("%s at %d px: %s", p, width, found)
			}
		}
	}
}

// oneRow tells which fields of a filter row are not in one row, or overlap what follows.
const oneRow = `[...document.querySelectorAll('.filter-row')].flatMap((row) => {
	const shown = (e) => e.checkVisibility() && getComputedStyle(e).opacity !== '0';
	const boxes = [...row.querySelectorAll('input:not([type="hidden"], [type="checkbox"]), select, .check-label, .button')].filter(shown).map((e) => e.getBoundingClientRect());
	const out = [];
	if (innerWidth > 640 && new Set(boxes.map((r) => Math.round((r.top + r.bottom) / 2 / 8))).size > 1) out.push('several rows');
	const bottom = Math.max(...boxes.map((r) => r.bottom));
	const next = row.closest('.list-bar, .page-head').nextElementSibling?.getBoundingClientRect();
	if (next && next.height && next.top < bottom) out.push('it overlaps the list by ' + (bottom - next.top) + ' px');
	for (const [i, a] of boxes.entries()) for (const c of boxes.slice(i + 1)) {
		if (a.left < c.right - 1 && c.left < a.right - 1 && a.top < c.bottom - 1 && c.top < a.bottom - 1) out.push('fields overlap');
	}
	return out;
})`

// TestEveryPageIsReachedByLinks follows links from the overview, as somebody does who knows no address.
func TestEveryPageIsReachedByLinks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	withRecords(t, f)
	b := open(t, serve(t, f.store, withServices).base())
	wanted := []string{
		"/cycles", "/incidents", "/approvals", "/services", "/actions", "/silences", "/costs", "/events", "/notifications", "/memory", "/hosts",
		"/guard", "/config", path("/sessions/%d", f.denied), path("/incidents/%d", f.incident.ID), path("/approvals/%d", f.approval.ID),
		"/services/default/paperless", "/services/default/postgres", "/actions/1", "/services/cooldown",
	}
	seen, next := map[string]bool{"/": true}, []string{"/"}
	for steps := 0; len(next) > 0 && steps < 60; steps++ {
		at := next[0]
		next = next[1:]
		b.visit(at)
		for _, href := range eval[[]string](b, `[...document.querySelectorAll('a[href]:not([download])')].map((a) => a.getAttribute('href').split('#')[0]).filter((h) => h.startsWith('/'))`) {
			bare, _, _ := strings.Cut(href, "?")
			if seen[bare] {
				continue
			}
			seen[bare] = true
			if depth := strings.Count(bare, "/"); depth == 1 || slices.Contains(wanted, bare) {
				next = append(next, href)
			}
		}
	}
	for _, p := range wanted {
		if !seen[p] {
			t.Errorf("no link leads to %s", p)
		}
	}
	b.resize(phone)
	b.visit("/")
	b.do(chromedp.Click(chromedp.CSS("details.more > summary")))
	b.wait("the other pages are listed", `[...document.querySelectorAll('.more-links a')].filter((a) => a.checkVisibility()).length === 2`)
}
