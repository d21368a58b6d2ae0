package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/failpoint"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// collect takes what a completed session says into its row: the structured outcome where there is one, else the handoff
// file. The file itself is deleted after the row is written.
func (a *Advancer) collect(ctx context.Context, env ops.Environment, now ops.Claimed, r *ops.Result, denied []ops.Denial) {
	s := r.Session
	failpoint.Hit("handoff.read.before")
	raw, present, err := a.Handoffs.Read(env.StateDir)
	failpoint.Hit("handoff.read.after")
	if a.structured(r) {
		if present {
			r.Events = append(r.Events, a.warn(*s, ops.VerbHandoffWarned, notice.HandoffTwice, nil))
		}
		return
	}
	switch {
	case err != nil:
		s.HandoffError = err.Error()
	case present && len(raw) == 0:
		s.HandoffError = "handoff.json is empty"
	case present:
		s.HandoffJSON = []byte(a.Redact(string(raw)))
	}
	report.Read(s)
	s.Outcome = decide.Conclude(*s)
	problem := ""
	switch {
	case s.Proposed():
	case s.Structured:
		// A program that is known to answer, and did not, has said nothing: silence is not health.
		problem = "it ended without a structured outcome and without a handoff file"
	default:
		problem = a.misplaced(ctx, env, now, r, denied)
	}
	if problem != "" {
		s.Outcome, s.Failure, s.Error = ops.OutcomeInconclusive, ops.FailureOutcome, problem
	}
}

// misplaced looks into the record of a session's calls for a handoff that is not where it belongs, and says so.
func (a *Advancer) misplaced(ctx context.Context, env ops.Environment, now ops.Claimed, r *ops.Result, denied []ops.Denial) string {
	s := *r.Session
	var calls []ops.GuardRecord
	if a.Gates.Judge() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		var err error
		if calls, err = a.Record.HandoffCalls(ctx, s.ID); err != nil {
			return fmt.Sprintf("it left no handoff file, and whether it tried to could not be read: %v", err)
		}
	}
	for _, d := range denied {
		calls = append(calls, ops.GuardRecord{Tool: d.Tool, Input: string(d.Input), Reason: "by its own program"})
	}
	var before *ops.Session
	if s.RetryOf != nil {
		before = now.Journal.Session(*s.RetryOf)
	}
	return decide.Misplaced(s, before, calls, env.HandoffPath())
}

// problem names what the session found. The agent wrote the texts, so they are redacted before they are cut.
func (a *Advancer) problem(s ops.Session) string {
	found := decide.Troubles(s)
	for i := range found {
		found[i].Service, found[i].Error = a.Redact(found[i].Service), a.Redact(found[i].Error)
	}
	return ops.ProblemOf(found)
}

// structured takes the structured outcome of a session and reports whether there was one that counts.
func (a *Advancer) structured(r *ops.Result) bool {
	s := r.Session
	if len(s.OutcomeJSON) == 0 {
		return false
	}
	o, found := report.Outcome(s.OutcomeJSON, s.Tier)
	for _, w := range found.Warnings {
		r.Events = append(r.Events, a.warn(*s, ops.VerbOutcomeWarned, w, nil))
	}
	if !found.OK() {
		problem := "the structured outcome is not valid: " + strings.Join(report.Sentences(found.Errors), "; ")
		if !s.Structured {
			r.Events = append(r.Events, a.warn(*s, ops.VerbOutcomeWarned, problem, nil)) // nobody asked for it
			return false
		}
		s.Outcome, s.Failure, s.Error = ops.OutcomeInconclusive, ops.FailureOutcome, problem
		if s.Tier == ops.LastTier && asksForHelp(s.OutcomeJSON) {
			s.HandoffError = problem // however badly it asks, nobody but a human comes after the last tier
		}
		report.Read(s)
		return true
	}
	s.Outcome, s.Report = o.Kind, &o
	if o.Handoff != nil {
		raw, err := json.Marshal(o.Handoff)
		if err != nil { // it was just parsed
			s.Outcome, s.Failure, s.Error = ops.OutcomeInconclusive, ops.FailureOutcome, fmt.Sprintf("keep handoff: %v", err)
			return true
		}
		s.HandoffJSON, s.Proposal = raw, &ops.Proposal{Handoff: o.Handoff}
	}
	for _, e := range o.Events {
		event := a.warn(*s, ops.VerbAgentReported, e.Message, nil)
		event.Actor.Kind = ops.ActorAgent
		event.Level, event.Service = e.Level, e.Service
		r.Events = append(r.Events, event)
	}
	for _, l := range o.Memories {
		r.Lessons = append(r.Lessons, decide.CleanLesson(l))
	}
	return true
}

// asksForHelp looks into an outcome that is not valid for what it wanted.
func asksForHelp(raw json.RawMessage) bool {
	var o struct {
		Kind    ops.OutcomeKind `json:"outcome"`
		Handoff json.RawMessage `json:"handoff"`
	}
	// A field of another type says nothing either.
	_ = json.Unmarshal(raw, &o)
	return o.Kind == ops.OutcomeEscalate || len(o.Handoff) > 0
}

// handoffName is the name of the handoff file in a state folder.
const handoffName = "handoff.json"

// refusedFile says why something that lies in the handoff's place was not read.
type refusedFile string

func (e refusedFile) Error() string {
	return fmt.Sprintf("%s is %s; it was not read", handoffName, string(e))
}

// HandoffFiles reads and deletes the file in a state folder.
type HandoffFiles struct{}

// Read is the content of the file, and whether there is anything at its name. It never waits and never follows a link. What is there but
// unsafe is a refusedFile.
func (HandoffFiles) Read(dir string) (raw []byte, present bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, false, fmt.Errorf("open state folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	// Looked at before it is opened, since opening alone can do something to a device.
	seen, err := root.Lstat(handoffName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, fmt.Errorf("look at handoff: %w", err)
	}
	raw, err = readHandoff(root, seen)
	return raw, true, err
}

// readHandoff reads the file that was seen, and none that has taken its place since.
func readHandoff(root *os.Root, seen fs.FileInfo) ([]byte, error) {
	if why := flawOf(seen); why != "" {
		return nil, refusedFile(why)
	}
	file, err := root.OpenFile(handoffName, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	opened, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !os.SameFile(seen, opened):
		return nil, refusedFile("another file than a moment before")
	}
	raw, err := io.ReadAll(io.LimitReader(file, report.MaxBytes+1))
	if err == nil && len(raw) > report.MaxBytes { // it grew while we read
		return nil, refusedFile(tooLargeHandoff())
	}
	return raw, err
}

// flawOf says why a file is not read, or nothing.
func flawOf(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case info.Size() > report.MaxBytes:
		return tooLargeHandoff()
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known || !info.Mode().IsRegular():
		return "no plain file"
	case stat.Nlink != 1:
		return "a file with a second name (hard link)"
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Sprintf("owned by another user (%d)", stat.Uid)
	}
	return ""
}

func tooLargeHandoff() string { return fmt.Sprintf("larger than %d KiB", report.MaxBytes>>10) }

// Delete removes whatever lies in the handoff's place, a folder with all that is in it included, and follows no link. Nothing there is
// fine.
func (HandoffFiles) Delete(dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open state folder: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	err = root.RemoveAll(handoffName)
	if errors.Is(err, fs.ErrPermission) { // a folder made read-only would otherwise stay for ever
		unlockHandoff(root)
		err = root.RemoveAll(handoffName)
	}
	return ops.Wrapped(err, "delete handoff")
}

// unlockHandoff makes the folders below the handoff's name writable as far as it can; the second removal reports the rest.
func unlockHandoff(root *os.Root) {
	_ = fs.WalkDir(root.FS(), handoffName, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case entry == nil || !entry.IsDir():
			return nil
		case err != nil:
			return fs.SkipDir
		}
		_ = root.Chmod(path, 0o700)
		return nil
	})
}
