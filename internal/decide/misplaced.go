package decide

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// Misplaced says why a session that left no handoff file meant to leave one: the record of its calls holds a write of a file of that
// name, or it continues a conversation that was asked to correct its handoff. Before is the session that it repeats, or nil. Empty:
// nothing is recorded, and nothing else is inferred from silence.
func Misplaced(s ops.Session, before *ops.Session, calls []ops.GuardRecord, belongs string) string {
	writeIt := "; write it to $CLAUDEOPS_STATE_DIR/handoff.json, which is " + belongs
	calls = slices.DeleteFunc(slices.Clone(calls), func(g ops.GuardRecord) bool { return !writesHandoff(g) })
	if i := slices.IndexFunc(calls, func(g ops.GuardRecord) bool { return !g.Allowed }); i >= 0 {
		return "it tried to hand over, but writing handoff.json was refused (" + calls[i].Reason + ")" + writeIt
	}
	if len(calls) > 0 {
		return "it wrote a handoff.json, but not where the supervisor looks for it" + writeIt
	}
	if before != nil && s.RecoveryLevel == ops.RecoveryNudge && (before.Proposed() || before.Failure == ops.FailureOutcome) {
		return "it was asked to correct its handoff and left none" + writeIt
	}
	return ""
}

// isHandoff reports a path of a file that is named like the handoff.
func isHandoff(path string) bool { return path[strings.LastIndexByte(path, '/')+1:] == "handoff.json" }

// What a shell command writes to: the target of a redirect, what tee gets, and the last word of a copy.
const word = `((?:"[^"\n]*"|'[^'\n]*'|[^\s"'<>|;&()])+)`

var (
	redirected = ops.Pattern(`>[>|]?[ \t]*` + word)
	teed       = ops.Pattern(`\btee(?:[ \t]+-\S+)*[ \t]+` + word)
	copied     = ops.Pattern(`(?m)\b(?:cp|mv|install)\b[^|;&\n]*[ \t]` + word + `[ \t]*(?:[|;&)]|$)`)
)

// writesHandoff reports that a recorded call writes a file that is named like the handoff, wherever it lies.
func writesHandoff(g ops.GuardRecord) bool {
	for _, name := range []string{"file_path", "notebook_path"} {
		if g.Tool != "Bash" && g.Tool != "Read" && isHandoff(recorded(g.Input, name)) {
			return true
		}
	}
	command := recorded(g.Input, "command")
	for _, form := range []func() *regexp.Regexp{redirected, teed, copied} {
		for _, m := range form().FindAllStringSubmatch(command, -1) {
			if isHandoff(strings.NewReplacer(`"`, "", `'`, "").Replace(m[1])) {
				return true
			}
		}
	}
	return false
}

// recorded reads a text of a call as it was recorded: long ones are shortened, so that it may be no JSON any more.
func recorded(input, name string) string {
	_, rest, _ := strings.Cut(input, `"`+name+`":`)
	_, rest, _ = strings.Cut(rest, `"`)
	var out strings.Builder
	for i := 0; i < len(rest) && rest[i] != '"'; i++ {
		if rest[i] != '\\' || i+1 == len(rest) {
			out.WriteByte(rest[i])
			continue
		}
		i++
		switch code := rest[i+1:]; rest[i] {
		case 'n', 'r', 't':
			out.WriteByte("\n\r\t"[strings.IndexByte("nrt", rest[i])])
		case 'u':
			if n, err := strconv.ParseUint(code[:min(4, len(code))], 16, 16); err == nil && len(code) >= 4 {
				out.WriteRune(rune(n))
				i += 4
			}
		default:
			out.WriteByte(rest[i])
		}
	}
	return out.String()
}
