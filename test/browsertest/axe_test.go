package browsertest

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

//go:embed testdata/axe.min.js
var axeSource string

func TestAxeIsWhatItsChecksumSays(t *testing.T) {
	raw, err := os.ReadFile("testdata/VENDORED.sha256")
	must(t, err)
	sum := sha256.Sum256([]byte(axeSource))
	if want := hex.EncodeToString(sum[:]) + "  axe.min.js\n"; string(raw) != want {
		t.Errorf("axe.min.js is %s", want)
	}
}

// finding is a rule of axe that a page breaks.
type finding struct {
	ID, Help string
	Nodes    []struct {
		HTML, FailureSummary string
	}
}

func (f finding) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s", f.ID, f.Help)
	for i, n := range f.Nodes {
		if i == 3 {
			fmt.Fprintf(&out, "\n  and %d more", len(f.Nodes)-i)
			break
		}
		fmt.Fprintf(&out, "\n  %s\n    %s", n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", "\n    "))
	}
	return out.String()
}

// The rules of axe to go by.
const (
	allRules    = ""
	colourRules = "runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}"
)

// axe returns what is wrong with the page as it is shown now. Nothing is left out but what axe calls experimental.
func (b *tab) axe(rules string) []finding {
	b.t.Helper()
	if !eval[bool](b, "Boolean(window.axe)") {
		eval[bool](b, axeSource+"\n;true")
	}
	return eval[[]finding](b, `axe.run(document, {resultTypes: ['violations'], preload: false, `+rules+`}).then((r) => r.violations.map((v) => ({
		ID: v.id, Help: v.help, Nodes: v.nodes.map((n) => ({HTML: n.html.slice(0, 300), FailureSummary: n.failureSummary}))})))`)
}

// overflow names what is wider than the window, or is cut off by what it stands in; or nothing.
func (b *tab) overflow() string {
	b.t.Helper()
	return eval[string](b, `(() => {
		const show = (e) => e.outerHTML.slice(0, 120) + ' (' + e.scrollWidth + ' in ' + e.clientWidth + ')';
		const width = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth > width || document.body.scrollWidth > width) {
			const wide = [...document.body.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right > width + 1 && e.checkVisibility());
			return 'the page: ' + wide.slice(-5).map(show).join(' | ');
		}
		return [...document.querySelectorAll('main, main *, dialog[open], dialog[open] *')].filter((e) => {
			const style = getComputedStyle(e);
			return /hidden|clip/.test(style.overflowX) && style.textOverflow !== 'ellipsis' && e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1 && e.checkVisibility();
		}).map(show).join(' | ');
	})()`)
}
