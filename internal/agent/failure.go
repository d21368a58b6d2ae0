package agent

import (
	"fmt"
	"strings"
	"syscall"

	"claudeops/internal/ops"
)

// failureOf returns the class of a stop.
func failureOf(cause ops.StopCause) ops.FailureClass {
	switch cause {
	case ops.StopLoop:
		return ops.FailureLoop
	case ops.StopBudget:
		return ops.FailureBudget
	case ops.StopDeadline:
		return ops.FailureDeadline
	case ops.StopWall:
		return ops.FailureWall
	case ops.StopIdle:
		return ops.FailureIdle
	case ops.StopTool:
		return ops.FailureTool
	case ops.StopJournal:
		return ops.FailureJournal
	case ops.StopInvariant:
		return ops.FailureInvariant
	case ops.StopNone:
		return ""
	case ops.StopUser, ops.StopShutdown, ops.StopCrash, ops.StopLease:
		return ops.FailureStopped
	}
	return ops.FailureStopped
}

const maxSentence = 400

// judge says whether the run failed, and why, in one sentence.
func (s *session) judge(res *ops.RunResult) {
	name := s.name
	switch {
	case res.Stop != ops.StopNone:
		res.Failure, res.Err = failureOf(res.Stop), res.StopWhy
	case s.resumeRefused():
		res.Failure, res.Err = ops.FailureResumeRefused, joinText(name+" could not continue the conversation", s.refusal())
	case res.ResultRead && res.IsError:
		res.Failure, res.Err = s.reported(name)
	case *res.ExitCode != 0:
		res.Failure, res.Err = ops.FailureExit, exitText(name, *res.ExitCode)+s.lastWords()
	case !res.ResultRead:
		res.Failure, res.Err = ops.FailureNoResult, name+" exited 0 without a result event"+s.lastWords()
	}
	res.Err = s.show(res.Err, maxSentence)
}

// refusal is what the CLI said when it did not continue a conversation.
func (s *session) refusal() string {
	if r := s.stream.result; r != nil && r.words() != "" {
		return firstLine(r.words())
	}
	return s.lastError
}

func exitText(name string, code int) string {
	if code > 128 && code < 128+64 {
		return fmt.Sprintf("%s was ended by signal %d (%v)", name, code-128, syscall.Signal(code-128))
	}
	return fmt.Sprintf("%s exited with code %d", name, code)
}

// lastWords adds what the program said last on its error output.
func (s *session) lastWords() string {
	if s.lastError == "" {
		return ""
	}
	return ": " + s.lastError
}

func joinText(text, more string) string {
	if more == "" {
		return text
	}
	return text + ": " + more
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}
