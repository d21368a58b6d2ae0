package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestThePagesAreUsedByKeyboard(t *testing.T) {
	t.Parallel()
	f := &fixture{journal: newJournal(t)}
	f.chainOfAllRoles()
	f.failures()
	b := open(t, serve(t, f.store).base())
	b.visit("/sessions")
	b.live()

	// The first stop leads past the navigation.
	b.press(kb.Tab)
	b.wait("the skip link comes first and can be seen",
		`document.activeElement.matches('a.skip') && document.activeElement.getBoundingClientRect().top >= 0 && document.activeElement.getBoundingClientRect().left >= 0`)
	b.press(kb.Enter)
	b.wait("it leads to the content", `document.activeElement.id === 'main'`)

	// Whatever gets the focus shows it, and is in view.
	b.visit("/sessions")
	b.live()
	seen := map[string]bool{}
	for range 40 {
		b.press(kb.Tab)
		stop := eval[struct{ Name, Wrong string }](b, focused)
		if stop.Wrong != "" {
			t.Errorf("focus on %s: %s", stop.Name, stop.Wrong)
		}
		seen[stop.Name] = true
	}
	if len(seen) < 25 {
		t.Errorf("only %d things get the focus: %v", len(seen), seen)
	}

	// A dialog by its key, kept inside, left by Escape, with the focus back where it was.
	b.visit("/")
	b.live()
	b.do(chromedp.Focus(chromedp.CSS(`.top-actions button[commandfor="run-now"]`)))
	b.press(kb.Enter)
	b.wait("the dialog is open with the focus in it", `document.querySelector('#run-now:modal')?.contains(document.activeElement)`)
	for range 12 {
		b.press(kb.Tab)
		if !eval[bool](b, `document.activeElement === document.body || document.querySelector('#run-now').contains(document.activeElement)`) {
			t.Fatal("the focus left the dialog: " + eval[string](b, `document.activeElement.outerHTML.slice(0, 200)`))
		}
	}
	b.press(kb.Escape)
	b.wait("Escape closes it", `!document.querySelector('#run-now').open`)
	b.wait("the focus is back", `document.activeElement.getAttribute('commandfor') === 'run-now'`)

	// The keys of the list.
	b.press("?")
	b.wait("the keys are listed", `document.querySelector('#keys:modal')`)
	b.press(kb.Escape)
	b.wait("the list is closed", `!document.querySelector('#keys').open`)
	b.press("r")
	b.wait("r asks what to run", `document.querySelector('#run-now:modal')`)
	b.press(kb.Escape)
	b.wait("it is closed", `!document.querySelector('#run-now').open`)
	b.press("g")
	b.press("c")
	b.wait("g c leads to the costs", `location.pathname === '/costs' && document.readyState === 'complete'`)
	b.visit(path("/sessions/%d", f.repaired[6]))
	b.strike("/", 191)
	b.wait("/ leads to the search", `document.activeElement.matches('[data-find]')`)
	b.press("jellyfin")
	b.wait("it is typed", `document.activeElement.value === 'jellyfin'`)
	b.strike("Enter", 13)
	b.wait("Enter goes to the first", `/^1 of \d+/.test(document.querySelector('#find-count').innerText)`)
}

// focused tells what has the focus and what is wrong with how it shows.
const focused = `(() => {
	const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
	const name = e.tagName + ' ' + (e.id || e.getAttribute('href') || e.name || e.innerText).slice(0, 60);
	if (e === document.body) return {Name: 'BODY', Wrong: ''};
	let wrong = '';
	if (!e.matches(':focus-visible')) wrong = 'it is not focus-visible';
	const ring = (s) => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 || s.boxShadow !== 'none';
	const label = e.labels?.[0] && getComputedStyle(e.labels[0]);
	if (!ring(style) && !(label && ring(label)) && !ring(getComputedStyle(e.parentElement))) wrong = 'nothing shows it: outline ' + style.outline;
	if (box.bottom < 0 || box.top > innerHeight || box.width < 1) wrong = 'it is not in view: ' + JSON.stringify(box);
	return {Name: name, Wrong: wrong};
})()`

func TestAThemeIsChosenAndKept(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	b := open(t, serve(t, j.store).base())
	b.visit("/sessions")
	const colours = `JSON.stringify([...document.querySelectorAll('body, main, header, .card, .button.primary, h1, footer')].map((e) => { const s = getComputedStyle(e); return [s.color, s.backgroundColor, s.borderColor]; }))`
	b.prefer("dark")
	dark := eval[string](b, colours)
	b.prefer("light")
	light := eval[string](b, colours)
	if dark == light {
		t.Fatal("the system's preference changes nothing")
	}
	b.follow(`form.switch button[value="dark"]`)
	b.wait("the page is dark", `document.documentElement.dataset.theme === 'dark' && location.pathname === '/sessions'`)
	if got := eval[string](b, colours); got != dark {
		t.Errorf("dark by choice is %s, by preference %s", got, dark)
	}
	b.visit("/costs")
	b.wait("it stays dark", `document.documentElement.dataset.theme === 'dark'`)
	b.follow(`form.switch button[value="light"]`)
	b.prefer("dark")
	b.visit("/sessions")
	if got := eval[string](b, colours); got != light {
		t.Errorf("light by choice is %s, by preference %s", got, light)
	}
}
