package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// The rules by which a gate itself refuses.
const (
	ruleInput   = "gate.input"
	ruleShape   = "gate.shape"
	ruleHook    = "gate.hook"
	ruleTimeout = "gate.timeout"
	rulePanic   = "gate.panic"
	ruleRecord  = "gate.record"
	ruleLease   = "gate.lease"
)

const (
	toolBash = "Bash"
	// maxFields is more than any tool has.
	maxFields = 100
)

// hookInput is what the CLI tells its hook.
type hookInput struct {
	Event     string          `json:"hook_event_name"`
	Cwd       string          `json:"cwd"`
	Tool      string          `json:"tool_name"`
	Input     json.RawMessage `json:"tool_input"`
	ToolUseID string          `json:"tool_use_id"`
}

// question is one call to be judged.
type question struct {
	gate      ops.Gate
	toolUseID string
	tool      string
	input     json.RawMessage
	cwd       string
	refused   *guard.Decision // it is not even looked at
}

func (q *question) refuse(rule, reason string) {
	q.refused = &guard.Decision{Verdict: guard.Deny, Rule: rule, Reason: reason}
}

// answer answers one line. A panic on the way is a refusal.
func (s *Session) answer(ctx context.Context, line []byte, tooLong error) (a client.Answer) {
	defer func() {
		if p := recover(); p != nil {
			s.g.o.Logger.ErrorContext(ctx, "the guard broke", "session_id", s.session.ID, "panic", fmt.Sprint(p))
			a = deny("The guard broke on this call, so it is refused: try something else, or report it for a human.")
		}
	}()
	var req client.Request
	err := tooLong
	if err == nil {
		err = json.Unmarshal(line, &req)
	}
	switch {
	case err != nil:
		return deny(fmt.Sprintf("The guard cannot read this call (%v), so it is refused: do it in smaller or simpler steps.", err))
	case len(req.Input) > client.MaxInput || len(req.Command) > client.MaxInput:
		return deny("This call is refused because its input is longer than 1 MiB: do it in smaller steps.")
	case req.Kind == client.KindHook:
		return s.answerHook(ctx, req.Input)
	case req.Kind == client.KindShell:
		return s.answerShell(ctx, req.Command, req.Cwd)
	case req.Kind == client.KindCommand:
		return s.answerCommand(ctx, req.Command, req.Cwd)
	case req.Kind == client.KindTool:
		return s.answerTool(ctx, req)
	default:
		return deny("The guard does not know this kind of question, so it is refused.")
	}
}

func deny(reason string) client.Answer { return client.Answer{Verdict: client.Deny, Reason: reason} }

func reply(d guard.Decision) client.Answer {
	if !d.Allowed() {
		return deny(d.Reason)
	}
	return client.Answer{Verdict: client.Allow, Reason: d.Reason}
}

func (s *Session) answerHook(ctx context.Context, raw json.RawMessage) client.Answer {
	var in hookInput
	err := json.Unmarshal(raw, &in)
	q := question{gate: ops.GateHook, toolUseID: in.ToolUseID, tool: in.Tool, input: in.Input, cwd: in.Cwd}
	if err == nil {
		err = checkHookInput(in)
	}
	if err != nil {
		q.refuse(ruleInput, fmt.Sprintf("This call is refused because it cannot be judged: %v.", err))
	}
	d := s.judge(ctx, q)
	a := reply(d)
	if d.Allowed() {
		s.remember(in)
		a.Note = s.note(string(in.Input))
	}
	return a
}

// note tells the agent what a call names that is there and not visible to it: to its programs it is absent, or not permitted.
func (s *Session) note(call string) string {
	unseen := s.unseen.Load()
	var out []string
	for _, path := range ops.Paths(call) {
		const most = 5
		if len(out) < most && unseen != nil && *unseen != nil && (*unseen)(path) {
			out = append(out, s.g.o.Redact(path)+" exists and is "+confine.Unseen)
		}
	}
	return strings.Join(out, "\n")
}

// checkHookInput refuses what would be judged as something else than the CLI does.
func checkHookInput(in hookInput) error {
	switch {
	case in.Event != "PreToolUse":
		return fmt.Errorf("the hook was called for %q, not before a tool", in.Event)
	case in.Tool == "" || in.ToolUseID == "":
		return errors.New("the call has no name or no id")
	case !path.IsAbs(in.Cwd):
		return errors.New("the working folder is not known")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(in.Input, &fields); err != nil || fields == nil {
		return errors.New("its input is no object")
	}
	if len(fields) > maxFields {
		return errors.New("its input has too many fields")
	}
	// Names that differ in their case only are one name to this program and two to the CLI.
	var seen []string
	for name := range fields {
		for _, other := range seen {
			if strings.EqualFold(name, other) {
				return fmt.Errorf("its input has the field %q twice", name)
			}
		}
		seen = append(seen, name)
	}
	return nil
}

// remember notes an allowed call, for the stream and for the shell.
func (s *Session) remember(in hookInput) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed[in.ToolUseID] = struct{}{}
	if in.Tool != toolBash {
		return
	}
	var bash struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(in.Input, &bash) == nil {
		s.waiting[bash.Command] = append(s.waiting[bash.Command], in.ToolUseID)
	}
}

// claim takes the oldest allowed call of a command that has not run yet.
func (s *Session) claim(command string) (toolUseID string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.waiting[command]
	if len(ids) == 0 {
		return "", false
	}
	s.waiting[command] = ids[1:]
	if len(ids) == 1 {
		delete(s.waiting, command)
	}
	return ids[0], true
}

func (s *Session) answerShell(ctx context.Context, text, cwd string) client.Answer {
	if script, ok := s.startsTools(text); ok {
		return client.Answer{Verdict: client.Allow, Script: script}
	}
	q := question{cwd: cwd}
	o, ok := takeApart(text)
	command := o.command
	if !ok {
		command = text
		q.refuse(
			ruleShape,
			"This command is refused because it did not reach the shell in the form the guard knows: "+
				"report it for a human, the agent's version may be too new.",
		)
	} else if q.toolUseID, ok = s.claim(command); !ok {
		q.refuse(
			ruleHook,
			"This command is refused because it is not one that was allowed before in exactly this text: "+
				"write it again in a plain form, with /dev/null where you mean it.",
		)
	}
	a := s.bash(ctx, q, command)
	if a.Verdict == client.Allow {
		a.Script = o.with(a.Script)
	}
	return a
}

// answerCommand judges a command of an agent that asks no hook: the shell is where it asks.
func (s *Session) answerCommand(ctx context.Context, command, cwd string) client.Answer {
	a := s.bash(ctx, question{cwd: cwd}, command)
	if a.Verdict == client.Allow {
		a.Note = s.note(command)
	}
	return a
}

// bash judges a command that reached a shell.
func (s *Session) bash(ctx context.Context, q question, command string) client.Answer {
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return deny("This command is refused because it cannot be judged.")
	}
	q.gate, q.tool, q.input = ops.GateShell, toolBash, input
	if q.refused == nil && !path.IsAbs(q.cwd) {
		q.refuse(ruleInput, "This command is refused because its working folder is not known.")
	}
	d := s.judge(ctx, q)
	a := reply(d)
	if d.Allowed() {
		a.Script = d.Script
		a = s.behindWall(a, d.Writable)
	}
	return a
}
