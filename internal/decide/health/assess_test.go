package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// probed is a result of a cycle's own probe.
func probed(service string, h ops.Health) ops.Check {
	return ops.Check{At: start(), Service: service, Probe: "GET", Status: h, Purpose: ops.ProbeObserve, Error: problem(h)}
}

func twoOfThree(ops.Check) Thresholds { return Thresholds{FailAfter: 3, RecoverAfter: 2} }

func TestExplainSaysHowFarACheckIsFromACycle(t *testing.T) {
	three := Thresholds{FailAfter: 3, RecoverAfter: 3}
	for _, c := range []struct {
		timeline   string
		thresholds Thresholds
		want       string
	}{
		{"...", three, ""},
		{"..x", three, "1 of 3 failed checks; a cycle starts after 2 more"},
		{"..xx", three, "2 of 3 failed checks; a cycle starts after the next"},
		{"x", Thresholds{}, "1 of 2 failed checks; a cycle starts after the next"},
		{"..xxx", three, ""},
		{"..xxx.", three, "1 of 3 good checks; counts as recovered after 2 more"},
		{"..xxx..", three, "2 of 3 good checks; counts as recovered after the next"},
		{"..xxx...", three, ""},
		{"xx.", Thresholds{}, "1 of 2 good checks; counts as recovered after the next"},
	} {
		s, _ := watch(c.timeline, c.thresholds)
		if got := Explain(s); got != c.want {
			t.Errorf("%s: got %q, want %q", c.timeline, got, c.want)
		}
	}
	// A row of an older version does not hold its thresholds.
	if got := Explain(ops.CheckState{Level: ops.Healthy, Bad: 1}); got != "1 of 2 failed checks; a cycle starts after the next" {
		t.Errorf("got %q", got)
	}
}

func TestACyclesOwnProbeObeysWhatTheWatchObeys(t *testing.T) {
	maintenance := []Window{{Maintenance: ops.Maintenance{Name: "work", Service: "web", Until: start().Add(time.Hour)}}}
	silence := []ops.Silence{{Service: "web", Until: start().Add(time.Hour), Reason: "work", Author: "ann"}}
	needsDB := []ops.Service{{Name: "web", DependsOn: []string{"db"}}, {Name: "db"}}
	web := probed("web", ops.Down)
	for _, c := range []struct {
		name    string
		p       Picture
		results []ops.Check
		want    string
	}{
		{"nothing is bad", Picture{}, []ops.Check{probed("web", ops.Healthy)}, ""},
		{"one failed check", Picture{}, []ops.Check{web}, "web undecided unsettled"},
		{"two failed checks", Picture{}, []ops.Check{web, web}, "web undecided unsettled"},
		{"three are a failure, which may have company", Picture{}, []ops.Check{web, web, web}, "web held waiting"},
		{"a good one between", Picture{}, []ops.Check{web, web, probed("web", ops.Healthy)}, ""},
		{"maintenance holds at once", Picture{Windows: maintenance}, []ops.Check{web}, "web held maintenance"},
		{"and later", Picture{Windows: maintenance}, []ops.Check{web, web, web}, "web held maintenance"},
		{"a silence holds at once", Picture{Silences: silence}, []ops.Check{web}, "web held silenced"},
		{
			"a dependency that fails in the same probe",
			Picture{Services: needsDB},
			[]ops.Check{web, probed("db", ops.Down)},
			"db undecided unsettled, web held dependency",
		},
		{"the watch saw some of the failures", Picture{States: []ops.CheckState{unsettledState("web", 2)}}, []ops.Check{web}, "web held waiting"},
		{"the watch saw it healthy a moment later", Picture{States: []ops.CheckState{well("web")}}, []ops.Check{web}, "web undecided unsettled"},
		{"it has failed for a while", Picture{States: []ops.CheckState{ill("web", ops.Down, time.Hour)}}, []ops.Check{web}, "web failing "},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			before := slices.Clone(c.p.States)
			for _, f := range Assess(c.p, ops.Grouping{}, twoOfThree, c.results, start()) {
				got = append(got, fmt.Sprintf("%s %s %s", f.Service, f.Verdict, f.Held.Why))
				if (f.Verdict == Failing) != (f.Held.Reason == "") {
					t.Errorf("no reason is given: %+v", f)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for i := range before {
				if before[i].Bad != c.p.States[i].Bad {
					t.Error("the picture was changed")
				}
			}
		})
	}
}

func unsettledState(service string, bad int) ops.CheckState {
	s := well(service)
	s.Bad, s.Downs, s.Good, s.NotDown, s.Began = bad, bad, 0, 0, start()
	return s
}

func TestAnUnsettledServiceIsHeldByMaintenanceFirst(t *testing.T) {
	p := Picture{
		States:  []ops.CheckState{unsettledState("web", 1)},
		Windows: []Window{{Maintenance: ops.Maintenance{Until: start().Add(time.Hour)}}},
	}
	j := Judge(p, ops.Grouping{}, start())
	if len(j.Held) != 1 || j.Held[0].Why != ops.HoldMaintenance || len(j.Causes) != 0 {
		t.Errorf("got %+v", j)
	}
	p.Windows = nil
	if j := Judge(p, ops.Grouping{}, start()); len(j.Held) != 1 || j.Held[0].Why != ops.HoldUnsettled {
		t.Errorf("got %+v", j)
	}
}

func TestProbesAreRepeatedUntilTheyDecide(t *testing.T) {
	for _, c := range []struct {
		web, db        string
		fails, recover int
	}{
		{".", ".", 0, 1},
		{"..", "..", 0, 0},
		{"x", ".", 2, 2},
		{"xx", "..", 1, 2},
		{"xxx", "...", 0, 2},
		{"xx.", "...", 0, 1},
		{"xxx", "..x", 2, 2},
		{".x.", "...", 0, 1}, // one good answer of a service that keeps crashing
		{"xx..", "....", 0, 0},
	} {
		var results []ops.Check
		for i := range c.web {
			results = append(results, probed("web", level(rune(c.web[i]))), probed("db", level(rune(c.db[i]))))
		}
		if fails, recovers := MoreToFail(results, twoOfThree), MoreToRecover(results, twoOfThree); fails != c.fails || recovers != c.recover {
			t.Errorf("%s and %s: %d more to fail, want %d; %d more to recover, want %d", c.web, c.db, fails, c.fails, recovers, c.recover)
		}
	}
	if MoreToRecover(nil, twoOfThree) != 0 || MoreToFail(nil, twoOfThree) != 0 {
		t.Error("no probe needs no more")
	}
	degraded := []ops.Check{probed("web", ops.Degraded)}
	if MoreToFail(degraded, twoOfThree) != 2 {
		t.Error("degraded is no failure")
	}
}

func TestTheThresholdsOfAProbeAreItsOwn(t *testing.T) {
	e := ops.Environment{Probes: []ops.ProbeSpec{{Service: "web", Name: "GET", FailAfter: 5, RecoverAfter: 4}}}
	limits := LimitsOf(e, func(s ops.ProbeSpec) string { return s.Name })
	if got := limits(probed("web", ops.Down)); got.FailAfter != 5 || got.RecoverAfter != 4 {
		t.Errorf("got %+v", got)
	}
	if got := limits(probed("db", ops.Down)); got.FailAfter != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestAQuestionOfACycleHoldsOnlyTheOthers(t *testing.T) {
	waiting := ops.Incident{ID: 1, Service: "web", Status: ops.IncidentOpen, Waiting: ops.Ptr(ops.CycleID(7))}
	taken := ops.Incident{ID: 2, Service: "web", Status: ops.IncidentAcknowledged, AcknowledgedBy: "ann", Waiting: ops.Ptr(ops.CycleID(7))}
	over := taken
	over.ResolvedAt = ops.Ptr(start())
	for _, c := range []struct {
		incident ops.Incident
		cycle    ops.CycleID
		want     bool
	}{
		{waiting, 0, true},
		{waiting, 8, true},
		{waiting, 7, false},
		{taken, 7, true},
		{over, 8, false},
		{ops.Incident{Status: ops.IncidentAcknowledged}, 0, false},
	} {
		if q, holds := heldByPerson(c.incident, c.cycle, start()); holds != c.want || (holds && (q.Reason == "" || !q.Active(start()))) {
			t.Errorf("incident %d and cycle %d: %t %+v", c.incident.ID, c.cycle, holds, q)
		}
	}
}
