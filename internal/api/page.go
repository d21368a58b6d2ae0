package api

import (
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// Paging is how a list is asked for. It is exported, like everything that is embedded here, because the router reads no other fields.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"How many items at most."`
	Cursor string `query:"cursor" doc:"The next_cursor of the page before; leave it out for the first page."`
}

// after reads the cursor; zero means the first page.
func (p Paging) after() (int64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(p.Cursor, 10, 64)
	if err != nil || id < 1 {
		return 0, huma.Error422UnprocessableEntity("the cursor is not one that a list returned")
	}
	return id, nil
}

// list is a page of items; a null cursor means that nothing follows.
type list[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

// page makes a list of at most limit items out of limit+1 rows that were asked for.
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

// body wraps an answer the way the router wants it.
type body[T any] struct {
	Body T
}

// text is nil for a column that is not set.
func text[S ~string](s S) *string {
	if s == "" {
		return nil
	}
	t := string(s)
	return &t
}
