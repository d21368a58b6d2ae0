package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// end plays the end of a session: what it passes on, its last words, and its result.
func (c *conversation) end(ctx context.Context, e Ending, stderr io.Writer) error {
	structured, err := c.passOn(e)
	if err != nil {
		return err
	}
	if e.Result != "" {
		if err := c.say(e.Result); err != nil {
			return err
		}
	}
	if e.Stderr != "" {
		if _, err := fmt.Fprintln(stderr, e.Stderr); err != nil {
			return fmt.Errorf("write stderr: %w", err)
		}
	}
	if e.Hang {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	if !e.NoResult {
		stop := "end_turn"
		words := c.lastText
		err := c.result(resultEvent{
			Subtype: subtypeSuccess, IsError: e.IsError, Result: &words, StopReason: &stop,
			Structured: structured, TerminalReason: reasonCompleted,
		})
		if err != nil {
			return err
		}
	}
	if e.Linger {
		<-ctx.Done()
		return errInterrupted
	}
	return nil
}

// passOn gives the facts to the supervisor. Structured output makes a file beside it needless.
func (c *conversation) passOn(e Ending) (json.RawMessage, error) {
	if c.opts.structured && e.Outcome != nil {
		id, input, err := c.toolCall(toolStructured, e.Outcome)
		if err != nil {
			return nil, err
		}
		return input, c.toolAnswer(id, "Structured output provided successfully", false, nil)
	}
	if e.Handoff == nil {
		return nil, nil
	}
	return nil, c.write("$"+envStateDir+"/handoff.json", string(e.Handoff)+"\n")
}
