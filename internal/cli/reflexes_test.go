package cli

import (
	"strings"
	"testing"
)

func TestReflexesAreShownAndSwitched(t *testing.T) {
	e := newElsewhere(t)
	e.Earn("default", "web")
	e.shows("reflexes list", "asked", "web", "GET /", "5xx", "restart")
	e.shows("reflexes show 1", "Reflex 1 of web is asked", "the probe GET / finds it down (5xx)", "Earned by C-1, C-2, C-3")
	if code, _, errs := e.run("reflexes", "enable", "1"); code == exitOK || !strings.Contains(errs, "no action restart any more") {
		t.Errorf("it is on without its action: %d %s", code, errs)
	}
	e.shows("reflexes disable 1 --reason never")
	e.shows("reflexes show 1", "is off by", "never")
}
