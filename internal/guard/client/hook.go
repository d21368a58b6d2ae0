package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The exit codes a CLI understands.
const (
	exitDecided = 0
	exitRefused = 2
)

// decision is what the CLI reads.
type decision struct {
	Output hookOutput `json:"hookSpecificOutput"`
}

type hookOutput struct {
	Event    string  `json:"hookEventName"`
	Decision Verdict `json:"permissionDecision"`
	Reason   string  `json:"permissionDecisionReason"`
}

// Hook asks about the tool call on stdin, prints the decision and returns the exit code. It is never silent: the
// CLI takes silence for consent. Without a decision the reason goes to stderr and the code refuses the call.
func Hook(stdin io.Reader, stdout, stderr io.Writer, socket string) int {
	return hook(stdin, stdout, stderr, socket, patience)
}

func hook(stdin io.Reader, stdout, stderr io.Writer, socket string, limit time.Duration) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintln(stderr, refusal(fmt.Errorf("the guard broke: %v", p)))
			code = exitRefused
		}
	}()
	answer, err := within(limit, func(until time.Time) (Answer, error) {
		input, err := readInput(stdin)
		if err != nil {
			return Answer{}, err
		}
		return ask(socket, Request{Kind: KindHook, Input: input}, until)
	})
	if err == nil {
		err = printDecision(stdout, answer)
	}
	if err != nil {
		fmt.Fprintln(stderr, refusal(err))
		return exitRefused
	}
	return exitDecided
}

func readInput(stdin io.Reader) (json.RawMessage, error) {
	input, err := io.ReadAll(io.LimitReader(stdin, MaxInput+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the input cannot be read: %w", err)
	case len(input) > MaxInput:
		return nil, errTooLong
	case !json.Valid(input):
		return nil, errors.New("the input is no JSON")
	}
	return input, nil
}

func printDecision(stdout io.Writer, a Answer) error {
	text, err := json.Marshal(decision{hookOutput{Event: "PreToolUse", Decision: a.Verdict, Reason: a.Reason}})
	if err != nil {
		return fmt.Errorf("write the decision: %w", err)
	}
	if _, err := stdout.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the decision: %w", err)
	}
	return nil
}
