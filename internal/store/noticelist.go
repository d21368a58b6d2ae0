package store

import (
	"context"
	"fmt"

	"claudeops/internal/ops"
)

// NoticeFilter chooses notices; the zero value means all.
type NoticeFilter struct {
	Status ops.NoticeStatus
	Before int64
	Limit  int
}

// NoticeList returns notices, the newest first.
func (s *Store) NoticeList(ctx context.Context, f NoticeFilter) ([]ops.Notice, error) {
	var w filter
	if f.Status != "" {
		w.add(`n.status = ?`, f.Status)
	}
	if f.Before > 0 {
		w.add(`n.id < ?`, f.Before)
	}
	out, err := list(ctx, s.reader, scanNotice, selectNotices+w.where()+` ORDER BY n.id DESC LIMIT ?`, append(w.args, pageSize(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("list notices: %w", err)
	}
	return out, nil
}
