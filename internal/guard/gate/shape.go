package gate

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"path"
	"strings"

	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
)

// The pieces that the CLI puts before a command, byte for byte.
const (
	tooOldStart = `{ case "${BASH_VERSINFO-}" in `
	tooOldEnd   = `) \builtin printf '%s\n' '__CLAUDE_CODE_DID_NOT_RUN_BASH_TOO_OLD='"${BASH_VERSION-}" >&2; ` +
		`\builtin exit 126; \exit 126;; esac; } && `

	sourceStart = `source `
	sourceEnd   = ` 2>/dev/null || true && `

	globStart = `{ \builtin shopt -u extglob || \builtin setopt NO_EXTENDED_GLOB NO_BARE_GLOB_QUAL NO_BRACE_CCL NO_MAGIC_EQUAL_SUBST`
	globEnd   = `; } >/dev/null 2>&1 || true && `

	whichPiece    = `{ \builtin unalias -- 'which'; \builtin unset -f -- 'which'; } >/dev/null 2>&1 || true && `
	unsetenvPiece = `{ \builtin unalias -- 'unsetenv'; \builtin unset -f -- 'unsetenv'; } >/dev/null 2>&1 || true && `

	evalStart = `eval `
	noInput   = ` < /dev/null`
	tail      = ` && pwd -P >| `
)

// The files the CLI names: its snapshot of the login shell, and the file it learns the working folder from.
var (
	snapshotName = ops.Pattern(`^snapshot-[a-z]+-[0-9]+-[a-z0-9]+\.sh$`)
	cwdName      = ops.Pattern(`^claude-[a-z0-9]+-cwd$`)
)

// outer is the text a CLI gives to its shell, taken apart around the command.
type outer struct {
	before  string // up to the word behind eval
	command string // what that word means
	after   string
}

// with is the text that runs another command in place of the one it was given.
func (o outer) with(command string) string { return o.before + quote(command) + o.after }

// takeApart accepts exactly the text the CLI writes around a command. It compares bytes and does not parse, so
// that there is nothing bash could read in another way.
func takeApart(text string) (outer, bool) {
	rest := skipTooOld(text)
	if behind, ok := strings.CutPrefix(rest, sourceStart); ok {
		name, behind, ok := cutWord(behind)
		if !ok || !path.IsAbs(name) || path.Base(path.Dir(name)) != "shell-snapshots" || !snapshotName().MatchString(path.Base(name)) {
			return outer{}, false
		}
		if rest, ok = strings.CutPrefix(behind, sourceEnd); !ok {
			return outer{}, false
		}
	}
	if behind, ok := strings.CutPrefix(rest, globStart); ok {
		behind = strings.TrimPrefix(behind, " NO_EQUALS")
		if rest, ok = strings.CutPrefix(behind, globEnd); !ok {
			return outer{}, false
		}
	}
	rest = strings.TrimPrefix(rest, whichPiece)
	rest = strings.TrimPrefix(rest, unsetenvPiece)
	word, ok := strings.CutPrefix(rest, evalStart)
	if !ok {
		return outer{}, false
	}
	before := text[:len(text)-len(word)]
	command, after, ok := cutWord(word)
	if !ok {
		return outer{}, false
	}
	file, ok := strings.CutPrefix(strings.TrimPrefix(after, noInput), tail)
	if !ok {
		return outer{}, false
	}
	name, end, ok := cutWord(file)
	if !ok || end != "" || !path.IsAbs(name) || !cwdName().MatchString(path.Base(name)) {
		return outer{}, false
	}
	return outer{before: before, command: command, after: after}, true
}

// skipTooOld passes over the piece that ends an old bash before it misreads a command.
func skipTooOld(text string) string {
	for _, versions := range []string{`'2'|'3'`, `'2'|'3'|'4'`} {
		if rest, ok := strings.CutPrefix(text, tooOldStart+versions+tooOldEnd); ok {
			return rest
		}
	}
	return text
}

// cutWord reads one word as the CLI quotes it: plain characters, 'text' and "'" side by side, up to a space or the
// end.
func cutWord(text string) (word, rest string, ok bool) {
	const apostrophe = `"'"`
	var out strings.Builder
	for i := 0; ; {
		switch {
		case i == len(text) || text[i] == ' ':
			return out.String(), text[i:], i > 0
		case text[i] == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return "", "", false
			}
			out.WriteString(text[i+1 : i+1+end])
			i += end + 2
		case strings.HasPrefix(text[i:], apostrophe):
			out.WriteByte('\'')
			i += len(apostrophe)
		case isPlain(text[i]):
			out.WriteByte(text[i])
			i++
		default:
			return "", "", false
		}
	}
}

// isPlain reports characters that mean themselves to every shell wherever they stand in a word.
func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_/.,:=@%+-", c) >= 0
}

// Tools are the supervisor's own tools of a session. The error of a call says why it is refused, and what to do instead.
type Tools interface {
	Call(ctx context.Context, tool string, input json.RawMessage) (result string, err error)
}

// Offer lets the session use tools from now on, and says how an agent reaches them.
func (s *Session) Offer(tools Tools) ops.ToolServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
	return ops.ToolServer{MCP: s.toolServer(), Folder: s.dir, Socket: s.Socket()}
}

func (s *Session) toolServer() []string { return []string{s.g.o.Self, "agent", "tools", s.Socket()} }

// startsTools reports whether a command starts the server of the session's tools, and returns it in quotes: the CLI starts its MCP
// servers by way of its shell too, with their words joined.
func (s *Session) startsTools(text string) (script string, ok bool) {
	s.mu.Lock()
	offered := s.tools != nil
	s.mu.Unlock()
	argv := s.toolServer()
	if !offered || text != strings.Join(argv, " ") {
		return "", false
	}
	for i, word := range argv {
		argv[i] = quote(word)
	}
	return "exec " + strings.Join(argv, " "), true
}

// noteLook records that a session looked outside: no gate has seen an agent without a hook ask.
func (s *Session) noteLook(ctx context.Context, input json.RawMessage, refused error) error {
	record := ops.GuardRecord{
		At: s.g.o.Clock(), CycleID: s.session.CycleID, SessionID: s.session.ID, Tier: s.session.May(), Gate: ops.GateAction, Tool: "look",
		Input: shorten(s.g.o.Redact(string(input))), Digest: ops.Digest(input), Allowed: refused == nil, Rule: "tool.look",
		Reason: "The supervisor looked.",
	}
	if refused != nil {
		record.Reason = ops.Cut(s.g.o.Redact(refused.Error()), maxRecorded)
	}
	ctx, cancel := context.WithTimeout(ctx, s.g.limits.record)
	defer cancel()
	if _, err := s.g.o.Ledger.RecordGuard(ctx, s.g.o.Owner(), record, nil, s.g.o.Limits); err != nil {
		return errors.New("what was looked at could not be recorded: try again later")
	}
	return nil
}

// answerTool runs a tool. The key keeps one session from using the socket of another.
func (s *Session) answerTool(ctx context.Context, req client.Request) client.Answer {
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	switch {
	case tools == nil:
		return deny("This session has no tools of the supervisor.")
	case s.session.Key == "" || subtle.ConstantTimeCompare([]byte(req.Key), []byte(s.session.Key)) != 1:
		return deny("This call is refused because it does not come from this session.")
	}
	text, err := tools.Call(ctx, req.Tool, req.Input)
	if req.Tool == "look" {
		err = errors.Join(err, s.noteLook(ctx, req.Input, err))
	}
	if err != nil {
		return deny(s.g.o.Redact(err.Error()))
	}
	return client.Answer{Verdict: client.Allow, Text: s.g.o.Redact(text)}
}
