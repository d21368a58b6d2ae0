package db

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"claudeops/internal/ops"
)

// timeLayout is how times are stored: UTC and of one width, so that texts sort like times.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// Time is t as it is stored. It does not use time.Format, because it runs for every line of output.
func Time(t time.Time) string {
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

// OptTime is a time as it is stored, NULL for nil.
func OptTime(t *time.Time) any {
	if t == nil {
		return nil
	}
	return Time(*t)
}

// OptText is a text as it is stored, NULL for an empty one.
func OptText[T ~string | ~[]byte](v T) any {
	if len(v) == 0 {
		return nil
	}
	return string(v)
}

// OptID is an id as it is stored, NULL for nil.
func OptID[T ~int64](id *T) any {
	if id == nil {
		return nil
	}
	return int64(*id)
}

// OrNull is a number as it is stored, NULL for zero.
func OrNull[T ~int | ~int64](n T) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}

// ToText reads a text column, NULL as empty.
func ToText[T ~string](p *T) sql.Scanner { return textTo[T]{p} }

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

// bytesPrefix begins a text that encodes bytes which are not valid text.
const bytesPrefix = "data:;base64,"

// OptBytes are bytes as they are stored in a text column, NULL for none. Valid text is stored unchanged; other bytes are encoded,
// because PostgreSQL refuses them in a text.
func OptBytes(b []byte) any {
	if utf8.Valid(b) && !bytes.ContainsRune(b, 0) && !bytes.HasPrefix(b, []byte(bytesPrefix)) {
		return OptText(b)
	}
	return bytesPrefix + base64.StdEncoding.EncodeToString(b)
}

// ToBytes reads what OptBytes stored, NULL as nil.
func ToBytes(p *[]byte) sql.Scanner { return bytesTo{p} }

type bytesTo struct{ p *[]byte }

func (d bytesTo) Scan(src any) error {
	var text string
	if err := ToText(&text).Scan(src); err != nil {
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

// ToTime reads a time column.
func ToTime(p *time.Time) sql.Scanner { return timeTo{p} }

type timeTo struct{ p *time.Time }

func (d timeTo) Scan(src any) error {
	var text string
	if err := ToText(&text).Scan(src); err != nil {
		return err
	}
	t, err := time.Parse(timeLayout, text)
	if err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	*d.p = t
	return nil
}

// ToOptTime reads a time column, NULL as nil.
func ToOptTime(p **time.Time) sql.Scanner { return optTimeTo{p} }

type optTimeTo struct{ p **time.Time }

func (d optTimeTo) Scan(src any) error {
	if src == nil {
		*d.p = nil
		return nil
	}
	var t time.Time
	if err := ToTime(&t).Scan(src); err != nil {
		return err
	}
	*d.p = &t
	return nil
}

// Said is what knows its own text, as it is stored.
func Said(v encoding.TextMarshaler) string {
	text, err := v.MarshalText()
	if err != nil {
		return ""
	}
	return string(text)
}

// ToSaid reads a column into what knows its own text.
func ToSaid(p encoding.TextUnmarshaler) sql.Scanner { return saidTo{p} }

type saidTo struct{ p encoding.TextUnmarshaler }

func (d saidTo) Scan(src any) error {
	var text string
	if err := ToText(&text).Scan(src); err != nil {
		return err
	}
	return d.p.UnmarshalText([]byte(text))
}

// ToJSON reads a column that holds JSON into p, NULL as its zero value.
func ToJSON(p any) sql.Scanner { return jsonTo{p} }

type jsonTo struct{ p any }

func (d jsonTo) Scan(src any) error {
	var text string
	if err := ToText(&text).Scan(src); err != nil {
		return err
	}
	if text == "" {
		return nil
	}
	return ops.Wrapped(json.Unmarshal([]byte(text), d.p), "read stored json")
}

// JSON is v as it is stored. What cannot be written as JSON fails the statement.
func JSON(v any) any {
	text, err := JSONText(v)
	if err != nil {
		return unstorable{err}
	}
	return text
}

// OptJSON is a list as it is stored, NULL for an empty one.
func OptJSON[T any](list []T) any {
	if len(list) == 0 {
		return nil
	}
	return JSON(list)
}

// JSONText is the same as a text.
func JSONText(v any) (string, error) {
	b, err := json.Marshal(v)
	return ops.Returning(string(b), err, "store json")
}

type unstorable struct{ err error }

// Value is asked for by the driver.
func (u unstorable) Value() (driver.Value, error) { return nil, u.err }

// OrEmpty is a list that is stored as [] when it has no elements.
func OrEmpty[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

const (
	// precise is the longest round trip whose measurement always replaces an older one.
	precise = 500 * time.Millisecond
	// measureAgain is the age at which a measurement is replaced by any other.
	measureAgain = time.Minute
	// smallStep is the largest correction that is hidden: until the server's time has caught up, the time does not change. A larger one
	// means that somebody set the server's clock.
	smallStep = time.Minute
)

// serverClock tells the server's time without asking for it each time: the server's time when it was last asked, plus the time that
// has passed on this machine since. Setting this machine's clock does not change it.
type serverClock struct {
	host ops.Clock

	mu       sync.Mutex
	server   time.Time     // the server's time at the last measurement
	at       time.Time     // the same moment, by what no clock changes: how long this machine runs
	ahead    time.Duration // this machine's clock, then
	measured bool
	last     time.Time // the last time that was told
}

// now is the server's time, in the location of this machine's clock. Before the first measurement it is this machine's time.
func (c *serverClock) now() time.Time {
	host := c.host()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.measured {
		return host
	}
	t := c.server.Add(time.Since(c.at)).In(host.Location())
	if back := c.last.Sub(t); back > 0 && back < smallStep {
		return c.last.In(host.Location())
	}
	c.last = t
	return t
}

// measure takes the server's answer to a question that was sent then.
func (c *serverClock) measure(sent, server time.Time) {
	host, trip := c.host(), time.Since(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.measured && trip > precise && sent.Sub(c.at) < measureAgain {
		return
	}
	c.server, c.at, c.measured = server, sent.Add(trip/2), true
	c.ahead = host.Round(0).Sub(server.Add(trip / 2))
}

// skew is how far this machine's clock was ahead of the server's at the last measurement.
func (c *serverClock) skew() (ahead time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead, c.measured
}

// NotBefore is the SQL of a time that is never before that in a column, also when the clock was set back. It takes the time twice.
func NotBefore(column string) string {
	return `CASE WHEN ` + column + ` > ? THEN ` + column + ` ELSE ? END`
}
