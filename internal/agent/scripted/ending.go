package scripted

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"
)

// end plays the end of a session: what it passes on, its last words, and its result.
func (c *conversation) end(ctx context.Context, e Ending, stderr io.Writer) error {
	if e.APIStatus != 0 || e.Subtype != "" {
		return c.brokenOff(e, stderr)
	}
	structured, err := c.passOn(ctx, e)
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

// brokenOff plays the end of a session whose model's API failed, or that the program ended itself.
func (c *conversation) brokenOff(e Ending, stderr io.Writer) error {
	if e.Stderr != "" {
		if _, err := fmt.Fprintln(stderr, e.Stderr); err != nil {
			return fmt.Errorf("write stderr: %w", err)
		}
	}
	if e.Subtype != "" {
		return c.result(resultEvent{Subtype: e.Subtype, IsError: true, Errors: []string{cmp.Or(e.Result, e.Subtype)}})
	}
	class := errorClass(e.APIStatus)
	if e.RetryAfter > 0 {
		err := c.stream.write(retryEvent{
			Type: "system", Subtype: "api_retry", Attempt: 1, MaxRetries: 1, DelayMS: e.RetryAfter.Milliseconds(),
			Status: e.APIStatus, Error: class, SessionID: c.sessionID,
		})
		if err != nil {
			return err
		}
	}
	words := cmp.Or(e.Result, fmt.Sprintf("API Error: %d", e.APIStatus))
	err := c.stream.write(messageEvent{
		Type: "assistant", SessionID: c.sessionID, UUID: uuid.NewString(), Error: class,
		Message: message{
			ID: newID("msg_"), Type: "message", Role: "assistant", Model: "<synthetic>", Content: []block{{Type: "text", Text: words}},
		},
	})
	if err != nil {
		return err
	}
	return c.result(resultEvent{
		Subtype: subtypeSuccess, IsError: true, APIErrorStatus: &e.APIStatus, Result: &words, TerminalReason: reasonAPIError,
	})
}

// errorClass is how the real program names a failure of the API.
func errorClass(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "authentication_failed"
	case http.StatusNotFound:
		return "model_not_found"
	case http.StatusTooManyRequests:
		return "rate_limit"
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return "invalid_request"
	}
	return "server_error"
}

// passOn gives the facts to the supervisor. Structured output makes a file beside it needless.
func (c *conversation) passOn(ctx context.Context, e Ending) (json.RawMessage, error) {
	if c.opts.structured && e.Outcome != nil {
		id, input, err := c.toolCall(toolStructured, json.RawMessage(e.Outcome))
		if err != nil {
			return nil, err
		}
		if why := c.askHook(ctx, toolStructured, id, input); why != "" {
			return nil, c.toolAnswer(id, why, true, nil)
		}
		return input, c.toolAnswer(id, "Structured output provided successfully", false, nil)
	}
	if e.Handoff == nil {
		return nil, nil
	}
	return nil, c.write(ctx, "$"+envStateDir+"/handoff.json", string(e.Handoff)+"\n")
}
