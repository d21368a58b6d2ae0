package web_test

import (
	"fmt"
	"testing"
	"time"
)

func TestPagesShowAProbationAndWhatDidNotHold(t *testing.T) {
	s, _ := watched(t)
	id := s.Repair("jellyfin")
	mustContain(t, s.page(fmt.Sprintf("/cycles/%d", id)), "Resolved", "On probation until")
	mustContain(t, s.page("/incidents/1"), "Resolved", "; on probation until 13:51")
	s.Now = s.Now.Add(4 * time.Minute)
	s.Relapse("jellyfin")
	cycle := s.page(fmt.Sprintf("/cycles/%d", id))
	mustContain(t, cycle, "Resolved, did not hold", "The repair did not hold: the same check failed again", "ended resolved")
	mustNotContain(t, cycle, "On probation until")
	mustContain(t, s.page("/cycles"), "Resolved, did not hold")
	mustContain(t, s.page("/incidents"), "the repair did not hold at 13:45", "The next cycle may start at 2026-11-14 13:48 UTC", "seen 2 times")
	mustContain(t, s.page("/incidents/1"), "Did not hold", "jellyfin is down again: HTTP 503", "Human needed")
	// What held is not on probation for ever.
	id = s.Repair("paperless")
	s.Now = s.Now.Add(11 * time.Minute)
	mustNotContain(t, s.page(fmt.Sprintf("/cycles/%d", id)), "robation")
	mustNotContain(t, s.page("/incidents/2"), "robation")
}

func TestARepairThatDidNotHoldEndsNoCallOfAnEarlierCycle(t *testing.T) {
	s, _ := watched(t)
	s.ends("grafana", "The certificate is too old.")
	s.Repair("jellyfin")
	mustNotContain(t, content(s.page("/")), "<strong>C-1</strong>")
	s.Relapse("jellyfin")
	mustContain(t, content(s.page("/")), "<strong>C-1</strong>")
}
