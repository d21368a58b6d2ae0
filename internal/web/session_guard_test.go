package web_test

import (
	"fmt"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

func TestASessionShowsWhatTheGuardDecided(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning})
	path := fmt.Sprintf("/sessions/%d", ids[0])
	mustContain(t, s.page(path), "The guard has checked no calls.")
	mustNotContain(t, s.page(path), "0 allowed")
	s.Judge(ids[0], ops.GuardRecord{
		Gate: ops.GateHook, Tool: "Bash", Input: `{"command":"ls && pwd"}`, Tier: 1, Allowed: true,
		Rule: "tool.Bash", Reason: "ls is allowed.",
	})
	s.Judge(ids[0], ops.GuardRecord{
		Gate: ops.GateShell, Tool: "Bash", Input: `{"command":"rm -rf / <script>alert(1)</script>` + strings.Repeat("x", 400) + `"}`, Tier: 1,
		Rule: "never.rm-root", Reason: "Nobody deletes the root.",
	})
	body := s.page(path)
	mustContain(t, body, "Guard decisions", "1 allowed, 1 denied", "Allowed", "Denied", "ls &amp;&amp; pwd", "before the tool call",
		"before the shell",
		"never.rm-root", "Nobody deletes the root.", "Show all")
	mustContain(t, body, `Guard <span class="tab-number">2</span>`)
	mustNotContain(t, body, "<script>alert", "The guard has checked no calls.")
}

func TestALongSessionStillShowsEveryRefusal(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning})
	s.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, Tool: "Bash", Input: "first refusal", Tier: 1, Rule: "R1", Reason: "No."})
	for i := range 210 {
		s.Judge(ids[0], ops.GuardRecord{
			Gate: ops.GateHook, Tool: "Bash", Input: fmt.Sprintf("look-%d.", i), Tier: 1, Allowed: true,
			Rule: "tool.Bash", Reason: "Yes.",
		})
	}
	body := s.page(fmt.Sprintf("/sessions/%d", ids[0]))
	mustContain(t, body, "210 allowed, 1 denied", "first refusal", "look-209.")
	mustNotContain(t, body, "look-3.")
}
