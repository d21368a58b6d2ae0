package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCommandsShowAProbationAndWhatDidNotHold(t *testing.T) {
	e := newElsewhereAt(t, time.Now())
	id := e.Repair("jellyfin")
	for _, args := range [][]string{{"cycles", "show", fmt.Sprint(id)}, {"incidents", "show", "1"}} {
		if out := e.must(args...); !strings.Contains(out, "On probation until") {
			t.Errorf("%v prints\n%s", args, out)
		}
	}
	e.Now = e.Now.Add(time.Minute)
	e.Relapse("jellyfin")
	for want, args := range map[string][]string{
		"Result: resolved, did not hold (Tier 2 repaired it":          {"cycles", "show", fmt.Sprint(id)},
		"Did not hold: the same check failed again at":                {"cycles", "show", fmt.Sprint(id)},
		"resolved, did not hold":                                      {"cycles", "list"},
		"The repair did not hold: opened again at":                    {"incidents", "show", "1"},
		"To do: the next cycle may start at":                          {"incidents", "show", "1"},
		"The repair of cycle 1 did not hold, jellyfin":                {"incidents", "report", "1"},
		"is open again: the repair of cycle 1 did not hold, jellyfin": {"cycles", "show", fmt.Sprint(id)},
	} {
		if out := e.must(args...); !strings.Contains(out, want) || strings.Contains(out, "On probation") {
			t.Errorf("%v: no %q in\n%s", args, want, out)
		}
	}
}
