package decide_test

import (
	"encoding/json"
	"strings"
	"testing"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

// A call as the gates record it.
func call(tool, field, text string, allowed bool) ops.GuardRecord {
	raw, err := json.Marshal(map[string]string{field: text})
	if err != nil {
		panic(err)
	}
	return ops.GuardRecord{Tool: tool, Input: string(raw), Allowed: allowed, Reason: "files change only inside the configured repositories"}
}

func TestAWriteOfTheHandoffThatCameToNothingIsSeen(t *testing.T) {
	const belongs = "/state/handoff.json"
	bash := func(command string) ops.GuardRecord { return call("Bash", "command", command, true) }
	refused := func(g ops.GuardRecord) ops.GuardRecord { g.Allowed = false; return g }
	cut := call("Write", "file_path", "/work/handoff.json", true)
	cut.Input = strings.TrimSuffix(cut.Input, "}") + `,"content":"{ \"schema_version\": 1, \"re…`
	cutCommand := ops.GuardRecord{Tool: "Bash", Allowed: true, Input: `{"command":"printf '%s' '{ \…\"reason\": \"x\" }' > \"$CLAUDEOPS_STATE_DIR\"/handoff.json","description":"hand over"}`}
	for name, tt := range map[string]struct {
		call ops.GuardRecord
		says string
	}{
		"written elsewhere":                 {call("Write", "file_path", "/work/handoff.json", true), "not where the supervisor looks"},
		"written by a relative name":        {call("Write", "file_path", "handoff.json", false), "was refused (files change only inside"},
		"edited":                            {call("Edit", "file_path", "/repos/infra/handoff.json", true), "not where"},
		"a redirect":                        {bash("echo '{}' > /tmp/handoff.json"), "not where"},
		"a redirect without a space":        {bash("jq -n '{}' >handoff.json"), "not where"},
		"a refused redirect":                {refused(bash("cat > /etc/handoff.json <<'EOF'\n{}\nEOF")), "was refused"},
		"a redirect to the variable":        {bash(`cat >| "$CLAUDEOPS_STATE_DIR"/handoff.json <<EOF` + "\n{}\nEOF"), "not where"},
		"appended, in quotes":               {bash(`echo x >> "/tmp/a folder/handoff.json"`), "not where"},
		"tee":                               {bash("echo '{}' | tee -a /tmp/handoff.json >/dev/null"), "not where"},
		"copied":                            {bash("cp /tmp/draft.json /tmp/x/handoff.json && echo done"), "not where"},
		"a text that was shortened":         {cut, "not where"},
		"a command that was shortened":      {cutCommand, "not where"},
		"another file":                      {call("Write", "file_path", "/work/old-handoff.json", true), ""},
		"a folder of that name":             {call("Write", "file_path", "/work/handoff.json/x", true), ""},
		"it was only read":                  {call("Read", "file_path", "/work/handoff.json", false), ""},
		"it was only looked at":             {bash("cat /state/handoff.json 2>&1 | head -1 > /dev/null"), ""},
		"it was copied away":                {bash("cp /state/handoff.json /tmp/x"), ""},
		"it is only mentioned":              {bash("echo 'no handoff.json is needed' > /tmp/notes"), ""},
		"another variable of the same call": {bash("grep -r handoff.json /repos > /tmp/found"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide.Misplaced(session(1, 1, ops.SessionCompleted), nil, []ops.GuardRecord{bash("uptime"), tt.call}, belongs)
			if !strings.Contains(got, tt.says) || (tt.says == "") != (got == "") {
				t.Errorf("it says %q, want %q", got, tt.says)
			}
			if got != "" && !strings.Contains(got, "write it to $CLAUDEOPS_STATE_DIR/handoff.json, which is "+belongs) {
				t.Errorf("it does not name the right place: %q", got)
			}
		})
	}
}

// Who was asked to correct a handoff, in the same conversation, and says nothing has not found that all is well.
func TestSilenceAfterANudgeIsNoHealth(t *testing.T) {
	misplaced := session(1, 1, ops.SessionCompleted, func(s *ops.Session) { s.Outcome, s.Failure = ops.OutcomeInconclusive, ops.FailureOutcome })
	invalid := session(1, 1, ops.SessionCompleted, func(s *ops.Session) { s.HandoffJSON = []byte(`{}`) })
	silent := session(1, 1, ops.SessionCompleted)
	for name, tt := range map[string]struct {
		before ops.Session
		level  ops.RecoveryLevel
		asks   bool
	}{
		"a handoff that was not there":     {misplaced, ops.RecoveryNudge, true},
		"a handoff that was not valid":     {invalid, ops.RecoveryNudge, true},
		"it goes on after an idle time":    {silent, ops.RecoveryNudge, false},
		"it looks anew, with its own eyes": {misplaced, ops.RecoveryReplan, false},
	} {
		got := decide.Misplaced(session(2, 1, ops.SessionCompleted, rung(tt.level, 1)), &tt.before, nil, "/state/handoff.json")
		if (got != "") != tt.asks {
			t.Errorf("%s: it says %q", name, got)
		}
	}
}
