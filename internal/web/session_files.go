package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

// maxFileCalls limits the calls that are searched for files.
const maxFileCalls = 200

// fileView is one call that reads or changes a file.
type fileView struct {
	At    stamp
	Badge badge
	Tool  string
	Path  string
	Raw   string
}

// filesView lists the files that tools read or changed by name. Changes made by shell commands are not known.
type filesView struct {
	Rows   []fileView
	Capped bool
}

// files returns the calls of a session that name a file.
func (s *server) files(ctx context.Context, m moment, id ops.SessionID) (*filesView, error) {
	denied, err := s.denials(ctx, id)
	if err != nil {
		return nil, err
	}
	var out filesView
	for _, field := range []string{`"file_path"`, `"notebook_path"`, `"file_change"`} {
		lines, err := s.Store.FindLines(ctx, id, field, maxFileCalls)
		if err != nil {
			return nil, fmt.Errorf("find files: %w", err)
		}
		out.Capped = out.Capped || len(lines) == maxFileCalls
		for _, line := range lines {
			out.Rows = append(out.Rows, m.fileCalls(id, line, denied)...)
		}
	}
	return &out, nil
}

// fileCalls returns the calls in one line that name a file.
func (m moment) fileCalls(id ops.SessionID, line ops.Line, denied map[string]denial) []fileView {
	var out []fileView
	for _, p := range transcript.Read(line.Text) {
		for _, path := range p.Paths {
			row := fileView{
				At: m.precise(line.At), Tool: plain(p.Tool), Path: plain(path), Badge: fileBadge(p.Tool), Raw: linePath(id, line.Seq),
			}
			if _, refused := denied[p.Call]; refused {
				row.Badge = badge{"bad", "ban", "Denied"}
			}
			out = append(out, row)
		}
	}
	return out
}

// fileBadge shows what a tool does to a file.
func fileBadge(tool string) badge {
	switch tool {
	case "Write":
		return badge{"warn", "plus", "Written"}
	case "Edit", "MultiEdit", "NotebookEdit":
		return badge{"warn", "wrench", "Changed"}
	case "Read":
		return badge{"ok", "eye", "Read"}
	}
	return badge{"unknown", "circle-question-mark", "Used"}
}

const (
	rawBatch  = 500
	rawWithin = 30 * time.Second // for each batch
)

// rawTranscript responds with every line as recorded.
func (s *server) rawTranscript(w http.ResponseWriter, r *http.Request) {
	id, ok := sessionID(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such session.")
		return
	}
	if _, err := s.Store.Session(r.Context(), id); err != nil {
		s.fail(w, r, "session", err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	control := http.NewResponseController(w)
	for last := int64(0); ; {
		lines, err := s.Store.Transcript(r.Context(), id, last, rawBatch)
		if err != nil {
			s.Logger.ErrorContext(r.Context(), "read transcript failed", "session", id, "error", err)
			panic(http.ErrAbortHandler) // a cut connection shows that lines are missing
		}
		_ = control.SetWriteDeadline(time.Now().Add(rawWithin)) // not every connection supports it
		for _, line := range lines {
			if _, err := w.Write([]byte(plain(line.Text) + "\n")); err != nil {
				return // the client has disconnected
			}
			last = line.Seq
		}
		if len(lines) < rawBatch {
			return
		}
	}
}
