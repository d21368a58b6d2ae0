package ops_test

import (
	"testing"

	"claudeops/internal/ops"
)

func TestACallThatWasRefusedIsToldFromOneThatRan(t *testing.T) {
	t.Parallel()
	const input, other = `{"command":"touch /x"}`, `{"command":"touch /y"}`
	hook := ops.GuardRecord{Gate: ops.GateHook, ToolUseID: "toolu_1", Input: input, Allowed: true}
	refusals := ops.Refusals{
		{Gate: ops.GateShell, ToolUseID: "toolu_1", Input: input, Reason: "not this"},
		{Gate: ops.GateShell, Input: input, Reason: "touch is refused"},
		{Gate: ops.GateShell, Input: "a part", Digest: ops.Digest([]byte(other)), Reason: "touch is refused"},
		{Gate: ops.GateDocker, ToolUseID: "docker:web", Reason: "cooldown"},
	}
	for name, tt := range map[string]struct {
		use, input, answer string
		refused            bool
	}{
		"by its id":                               {"toolu_1", "", "", true},
		"another id":                              {"toolu_2", "", "", false},
		"by its command and the reason":           {"item_1", input, "Exit code 126\ntouch is refused", true},
		"by all of a command that was shortened":  {"item_1", other, "touch is refused", true},
		"the same command later, which was let":   {"item_2", input, "", false},
		"a command that only prints that reason":  {"item_3", `{"command":"echo touch is refused"}`, "touch is refused", false},
		"no call at all, but a text that says so": {"", "", "touch is refused", false},
	} {
		if _, refused := refusals.Of(tt.use, tt.input, tt.answer); refused != tt.refused {
			t.Errorf("%s: refused %t", name, refused)
		}
	}
	docker := ops.GuardRecord{Gate: ops.GateDocker, ToolUseID: "docker:web", Allowed: true}
	if ran := refusals.Ran([]ops.GuardRecord{hook, docker}); len(ran) != 1 || ran[0].Gate != ops.GateDocker {
		t.Errorf("%+v ran: a hook lets pass what the shell refuses, and an earlier request is another one", ran)
	}
}
