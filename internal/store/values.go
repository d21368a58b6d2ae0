package store

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// timeLayout is how times are stored: UTC, of one width, so that text sorts as time does.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// formatTime writes t in timeLayout; by hand, because it runs for every line of output.
func formatTime(t time.Time) string {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b := []byte("0000-00-00T00:00:00.000000Z")
	for _, f := range [...]struct{ end, value int }{
		{4, year}, {7, int(month)}, {10, day}, {13, hour}, {16, minute}, {19, second}, {26, t.Nanosecond() / 1000},
	} {
		for i, v := f.end-1, f.value; v > 0 && i >= 0; i, v = i-1, v/10 {
			b[i] = byte('0' + v%10)
		}
	}
	return string(b)
}

// orNow is t, or the store's own time where the caller gave none.
func (s *Store) orNow(t time.Time) time.Time {
	if t.IsZero() {
		return s.clock()
	}
	return t
}

// optTime is a time as it is stored, NULL for nil.
func optTime(t *time.Time) any {
	if t == nil {
		return nil
	}
	return formatTime(*t)
}

// optText is a text as it is stored, NULL for an empty one.
func optText[T ~string | ~[]byte](v T) any {
	if len(v) == 0 {
		return nil
	}
	return string(v)
}

// optID is an id as it is stored, NULL for nil.
func optID[T ~int64](id *T) any {
	if id == nil {
		return nil
	}
	return int64(*id)
}

// orNull is a number as it is stored, NULL for zero.
func orNull[T ~int | ~int64](n T) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}

// toText reads a text column, NULL as empty.
func toText[T ~string](p *T) sql.Scanner { return textTo[T]{p} }

type textTo[T ~string] struct{ p *T }

func (d textTo[T]) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*d.p = ""
	case string:
		*d.p = T(v)
	case []byte:
		*d.p = T(v)
	default:
		return fmt.Errorf("read text: unexpected %T", src)
	}
	return nil
}

// bytesPrefix begins a text that stands for bytes which are no text.
const bytesPrefix = "data:;base64,"

// optBytes are bytes as they are stored in a text column, NULL for none: as they are if they are a text, which not every
// database takes otherwise.
func optBytes(b []byte) any {
	if utf8.Valid(b) && !bytes.ContainsRune(b, 0) && !bytes.HasPrefix(b, []byte(bytesPrefix)) {
		return optText(b)
	}
	return bytesPrefix + base64.StdEncoding.EncodeToString(b)
}

// toBytes reads what optBytes stored, NULL as nil.
func toBytes(p *[]byte) sql.Scanner { return bytesTo{p} }

type bytesTo struct{ p *[]byte }

func (d bytesTo) Scan(src any) error {
	var text string
	if err := toText(&text).Scan(src); err != nil {
		return err
	}
	*d.p = nil
	if text == "" {
		return nil
	}
	if encoded, ok := strings.CutPrefix(text, bytesPrefix); ok {
		if b, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			*d.p = b
			return nil
		}
	}
	*d.p = []byte(text)
	return nil
}

// toTime reads a time column.
func toTime(p *time.Time) sql.Scanner { return timeTo{p} }

type timeTo struct{ p *time.Time }

func (d timeTo) Scan(src any) error {
	var text string
	if err := toText(&text).Scan(src); err != nil {
		return err
	}
	t, err := time.Parse(timeLayout, text)
	if err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	*d.p = t
	return nil
}

// toOptTime reads a time column, NULL as nil.
func toOptTime(p **time.Time) sql.Scanner { return optTimeTo{p} }

type optTimeTo struct{ p **time.Time }

func (d optTimeTo) Scan(src any) error {
	if src == nil {
		*d.p = nil
		return nil
	}
	var t time.Time
	if err := toTime(&t).Scan(src); err != nil {
		return err
	}
	*d.p = &t
	return nil
}

// toJSON reads a column that holds JSON into p, NULL as its zero value.
func toJSON(p any) sql.Scanner { return jsonTo{p} }

type jsonTo struct{ p any }

func (d jsonTo) Scan(src any) error {
	var text string
	if err := toText(&text).Scan(src); err != nil {
		return err
	}
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), d.p); err != nil {
		return fmt.Errorf("read stored json: %w", err)
	}
	return nil
}

func asJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("store json: %w", err)
	}
	return string(b), nil
}

// orOf is a pointer to fallback where p is nil: rows written for a cycle belong to it unless they say otherwise.
func orOf[T any](p *T, fallback T) *T {
	if p == nil {
		return &fallback
	}
	return p
}

func scanString(r row) (string, error) {
	var v string
	err := r.Scan(&v)
	return v, err
}

func scanInt(r row) (int64, error) {
	var v int64
	err := r.Scan(&v)
	return v, err
}

// dayStart is the midnight, UTC, that began the day of t.
func dayStart(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// orEmpty is a list that is stored as a list, also without an element.
func orEmpty[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}
