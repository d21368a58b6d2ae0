package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
)

// Line is one line of a session's output, redacted.
type Line struct {
	Seq  int64     `json:"seq"`
	At   time.Time `json:"at"`
	Line string    `json:"line"`
}

type transcriptQuery struct {
	SessionPath
	Paging
}

func (s *server) registerTranscript(api huma.API) {
	huma.Register(api, look("get-transcript", "/sessions/{id}/transcript", "Read a session's output, oldest line first", "sessions",
		"Secrets are removed before a line is stored. The cursor is the seq of the last line, so a reader can continue while the session runs.",
		http.StatusNotFound), s.transcript)
}

func (s *server) transcript(ctx context.Context, q *transcriptQuery) (*body[list[Line]], error) {
	after, err := q.after()
	if err != nil {
		return nil, err
	}
	id := ops.SessionID(q.ID)
	what := fmt.Sprintf("transcript of session %d", q.ID)
	if _, err := s.Store.Session(ctx, id); err != nil {
		return nil, s.problem(what, err)
	}
	rows, err := s.Store.Transcript(ctx, id, after, q.Limit+1)
	if err != nil {
		return nil, s.problem(what, err)
	}
	return &body[list[Line]]{page(rows, q.Limit,
		func(l ops.Line) int64 { return l.Seq }, LineRow)}, nil
}

// LineRow is a line of a transcript.
func LineRow(l ops.Line) Line { return Line{Seq: l.Seq, At: l.At, Line: l.Text} }
