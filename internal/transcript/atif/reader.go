package atif

import (
	"encoding/json"
	"slices"
	"time"

	"claudeops/internal/transcript"
)

// message is a line of Claude Code that holds a message. Several lines belong to one message of the model.
type message struct {
	Type    string `json:"type"`
	Message struct {
		ID      string          `json:"id"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
		Usage   *struct {
			Input      *int64 `json:"input_tokens"`
			Output     *int64 `json:"output_tokens"`
			CacheRead  *int64 `json:"cache_read_input_tokens"`
			CacheWrite *int64 `json:"cache_creation_input_tokens"`
		} `json:"usage"`
	} `json:"message"`
}

// inputs are the arguments of the calls in a message, by the ids of the calls.
func (m message) inputs() map[string]json.RawMessage {
	var blocks []struct {
		ID    string          `json:"id"`
		Input json.RawMessage `json:"input"`
	}
	out := map[string]json.RawMessage{}
	if json.Unmarshal(m.Message.Content, &blocks) != nil {
		return out // a text
	}
	for _, b := range blocks {
		if b.ID != "" {
			out[b.ID] = b.Input
		}
	}
	return out
}

// reader turns lines into steps. A step of the agent is open until another message begins: results of its calls belong to it.
type reader struct {
	out  *Trajectory
	open *Step
	id   string // of the message that the open step is made from
	text bool   // the last step is plain output
}

// read reads a line.
func (r *reader) read(l Line) {
	var m message
	_ = json.Unmarshal([]byte(l.Text), &m) // a line that is not a message has no id and no usage
	parts := transcript.Read(l.Text)
	inputs := m.inputs()
	for _, p := range parts {
		switch p.Kind {
		case transcript.Text, transcript.Thinking, transcript.Call:
			r.say(l.At, m, p, inputs)
		case transcript.Output:
			r.observe(l.At, p)
		case transcript.Prompt:
			r.plain(l.At, sourceUser, p.Text)
		case transcript.Stdout:
			r.plain(l.At, sourceAgent, p.Text)
		case transcript.Stderr, transcript.Retry, transcript.Dropped, transcript.Withheld:
			r.plain(l.At, sourceSystem, p.Text)
		case transcript.Result:
			if p.Failed {
				r.plain(l.At, sourceSystem, p.Text)
			}
		case transcript.Start, transcript.Event: // nothing that was said or done
		}
	}
}

// say adds what the agent says, thinks or calls to its step.
func (r *reader) say(at time.Time, m message, p transcript.Part, inputs map[string]json.RawMessage) {
	if r.open == nil || m.Message.ID == "" && r.open.Observation != nil || m.Message.ID != r.id {
		r.flush()
		r.open, r.id = &Step{Timestamp: &at, Source: sourceAgent}, m.Message.ID
		if m.Message.Model != r.out.Agent.ModelName {
			r.open.ModelName = m.Message.Model
		}
	}
	if u := m.Message.Usage; u != nil {
		r.open.Metrics = &Metrics{
			PromptTokens: sum(u.Input, u.CacheRead, u.CacheWrite), CompletionTokens: u.Output, CachedTokens: u.CacheRead,
		}
	}
	switch p.Kind {
	case transcript.Thinking:
		r.open.Reasoning = joined(r.open.Reasoning, p.Text)
	case transcript.Call:
		if p.Call != "" && !r.open.calls(p.Call) {
			r.open.ToolCalls = append(r.open.ToolCalls, ToolCall{ID: p.Call, Function: p.Tool, Arguments: arguments(inputs[p.Call], p.Text)})
		}
	default:
		r.open.Message = joined(r.open.Message, p.Text)
	}
}

// observe adds a result to the step with its call. A result without a known call stands alone.
func (r *reader) observe(at time.Time, p transcript.Part) {
	result := Result{SourceCallID: p.Answer, Content: p.Text}
	if p.Failed {
		result.Extra = map[string]any{"failed": true}
	}
	step := r.open
	if step == nil || !step.calls(p.Answer) {
		step = nil
		for i := range slices.Backward(r.out.Steps) {
			if r.out.Steps[i].calls(p.Answer) {
				step = &r.out.Steps[i]
				break
			}
		}
	}
	if step == nil {
		r.flush()
		result.SourceCallID, r.text = "", false
		r.out.add(Step{Timestamp: &at, Source: sourceSystem, Message: "", Observation: &Observation{Results: []Result{result}}})
		return
	}
	if step.Observation == nil {
		step.Observation = &Observation{}
	}
	step.Observation.Results = append(step.Observation.Results, result)
}

// plain adds a step that is only a text. Lines of plain output that follow each other are one step.
func (r *reader) plain(at time.Time, source, text string) {
	r.flush()
	if r.text && source == sourceAgent {
		r.out.Steps[len(r.out.Steps)-1].Message += "\n" + text
		return
	}
	r.out.add(Step{Timestamp: &at, Source: source, Message: text})
	r.text = source == sourceAgent
}

// flush ends the open step.
func (r *reader) flush() {
	if r.open != nil {
		r.out.add(*r.open)
		r.open, r.id, r.text = nil, "", false
	}
}

// calls reports whether the step makes the call.
func (s *Step) calls(id string) bool {
	return id != "" && slices.ContainsFunc(s.ToolCalls, func(c ToolCall) bool { return c.ID == id })
}

func joined(before, text string) string {
	if before == "" {
		return text
	}
	return before + "\n\n" + text
}
