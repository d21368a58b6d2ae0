package api

import (
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// Paging are the parameters of a list. It is exported, like every embedded type here, because the router reads exported fields only.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Maximum number of items."`
	Cursor string `query:"cursor" doc:"The next_cursor of the previous page. Default: the first page."`
}

// after reads the cursor; zero means the first page.
func (p Paging) after() (int64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(p.Cursor, 10, 64)
	if err != nil || id < 1 {
		return 0, errCursor()
	}
	return id, nil
}

func errCursor() error {
	return huma.Error422UnprocessableEntity("the cursor is invalid: use the next_cursor of a list")
}

// list is a page of items; a null cursor means that it is the last page.
type list[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

// page makes a list of at most limit items from up to limit+1 rows.
func page[R, T any](rows []R, limit int, id func(R) int64, item func(R) T) list[T] {
	out := list[T]{Items: make([]T, 0, min(limit, len(rows)))}
	for i, row := range rows {
		if i == limit {
			next := strconv.FormatInt(id(rows[i-1]), 10)
			out.NextCursor = &next
			break
		}
		out.Items = append(out.Items, item(row))
	}
	return out
}

// body wraps an answer for the router.
type body[T any] struct {
	Body T
}

// text is nil for an empty column.
func text[S ~string](s S) *string {
	if s == "" {
		return nil
	}
	t := string(s)
	return &t
}
