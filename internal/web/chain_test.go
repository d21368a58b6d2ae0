package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

func TestScenario_SessionDetailShowsParentLink(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	for i, child := range ids[1:] {
		body := s.page(fmt.Sprintf("/sessions/%d", child))
		parent := ids[i]
		mustContain(t, body,
			fmt.Sprintf("Escalated from Session #%d (Tier %d)", parent, i+1),
			fmt.Sprintf(`href="/sessions/%d"`, parent))
	}
	mustNotContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "Escalated from")
}

func TestScenario_SessionDetailShowsChildLink(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	for i, parent := range ids[:2] {
		body := s.page(fmt.Sprintf("/sessions/%d", parent))
		child := ids[i+1]
		mustContain(t, body,
			fmt.Sprintf("Escalated to Session #%d (Tier %d)", child, i+2),
			fmt.Sprintf(`href="/sessions/%d"`, child))
	}
	mustNotContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[2])), "Escalated to")
}

func TestScenario_SessionsListShowsEscalationIndicator(t *testing.T) {
	s := newSite(t)
	cycle, ids := s.threeTiers()
	_, alone := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy})
	body := s.page("/sessions")
	mustContain(t, body,
		fmt.Sprintf("C-%d", cycle), "jellyfin 502",
		"First session of the cycle",
		fmt.Sprintf("Escalated from session #%d:", ids[0]),
		fmt.Sprintf("Escalated from session #%d:", ids[1]),
		`<span class="arrow" aria-hidden="true">→</span><a class="tier tier-2"`, `<span class="arrow" aria-hidden="true">→</span><a class="tier tier-3"`)
	for _, id := range append(ids, alone...) {
		mustContain(t, body, fmt.Sprintf(`href="/sessions/%d" title=`, id), fmt.Sprintf(`<span class="hidden"> #%d</span></a>`, id))
	}
	if n := strings.Count(body, "First session of the cycle:"); n != 1 {
		t.Errorf("%d chains are marked, want only the one with more than one session", n)
	}
}

func TestScenario_EscalationChainCostRollup(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	body := s.page(fmt.Sprintf("/sessions/%d", ids[0]))
	facts, _, _ := strings.Cut(content(body), "</dl>")
	mustContain(t, facts, "Est. cost", "$0.02", "Cycle total", "$0.83")
}

func TestScenario_ChainCostBreakdownVisible(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	for _, id := range ids {
		body := s.page(fmt.Sprintf("/sessions/%d", id))
		_, chain, _ := strings.Cut(body, `<table role="table" class="waterfall">`)
		rows := strings.Split(chain, "<tr ")
		for i, want := range [][]string{
			{">17s<", ">4<", ">$0.02<"}, {">3m 05s<", ">22<", ">$0.31<"}, {">1m 00s<", ">11<", ">$0.50<"},
		} {
			mustContain(t, rows[i+2], append(want, fmt.Sprintf("#%d<", ids[i]))...)
		}
		mustContain(t, rows[5], "Cycle total", "4m 22s", ">37<", ">$0.83<")
	}
}

func TestUnknownCostIsNeverShownAsZero(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleFailed, "failed",
		apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionFailed, Error: "no result"})
	for _, path := range []string{"/sessions", fmt.Sprintf("/sessions/%d", ids[0]), "/"} {
		body := s.page(path)
		mustContain(t, body, "unknown")
		mustNotContain(t, body, "$0.00")
	}
}

func TestPartlyKnownChainCostIsMarkedAsALowerBound(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleNeedsHuman, "stopped",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: handoff, Figures: figures(0.02, 4, 900)},
		apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionFailed, Error: "boom"})
	for _, path := range []string{"/sessions", fmt.Sprintf("/sessions/%d", ids[0])} {
		mustContain(t, s.page(path), "≥ $0.02", "without 1 session of unknown cost")
	}
}

func TestAKnownZeroCostIsShown(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy, Figures: figures(0, 1, 900)})
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "$0.00")
}
