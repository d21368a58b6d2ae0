package agent

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func readLines(t *testing.T, r *lineReader) (lines []string, dropped int64) {
	t.Helper()
	for {
		line, n, err := r.next()
		if errors.Is(err, io.EOF) {
			return lines, dropped
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
		dropped += n
	}
}

func TestLinesOfAnyShapeAreRead(t *testing.T) {
	long := strings.Repeat("long ", 100_000)
	tests := []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"one", "a\n", []string{"a"}},
		{"a last line without an end", "a\nb", []string{"a", "b"}},
		{"empty lines", "\n\na\n\n", []string{"", "", "a", ""}},
		{"carriage returns", "a\r\nb\r\n", []string{"a", "b"}},
		{"longer than the buffer", "a\n" + long + "\nb\n" + long, []string{"a", long, "b", long}},
		{"exactly the buffer", strings.Repeat("x", readBuffer) + "\ny", []string{strings.Repeat("x", readBuffer), "y"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for how, in := range map[string]io.Reader{
				"at once":       strings.NewReader(tt.in),
				"byte for byte": iotest.OneByteReader(strings.NewReader(tt.in)),
				"with an end":   iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				if got, dropped := readLines(t, newLineReader(in)); !slices.Equal(got, tt.want) || dropped != 0 {
					t.Errorf("%s: got %d lines, %d bytes dropped", how, len(got), dropped)
				}
			}
		})
	}
}

func TestAnEndlessLineIsDroppedBeyondTheLimit(t *testing.T) {
	const limit = 200_000
	r := newLineReader(strings.NewReader("a\n" + strings.Repeat("x", limit+12_345) + "\nb\n" + strings.Repeat("y", limit) + "\n"))
	r.max = limit
	lines, dropped := readLines(t, r)
	if len(lines) != 4 || len(lines[1]) != limit || dropped != 12_345 || lines[2] != "b" || len(lines[3]) != limit {
		t.Errorf("got %d lines, %d bytes dropped", len(lines), dropped)
	}
}

func TestAReadErrorKeepsWhatCameBefore(t *testing.T) {
	broken := errors.New("broken")
	r := newLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	for _, want := range []string{"a", "b"} {
		if line, _, err := r.next(); err != nil || string(line) != want {
			t.Errorf("got %q, %v", line, err)
		}
	}
	if _, _, err := r.next(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestWhatADatabaseCannotHoldIsReplaced(t *testing.T) {
	if got := clean("a\x00b\xffc"); got != "a\uFFFDb\uFFFDc" {
		t.Errorf("got %q", got)
	}
	if got := clean("grüße"); got != "grüße" {
		t.Errorf("got %q", got)
	}
}

func TestACutTextSaysSo(t *testing.T) {
	tests := []struct {
		in      string
		limit   int
		dropped int64
		want    string
	}{
		{"abc", 3, 0, "abc"},
		{"abcd", 3, 0, "abc … [cut: 1 bytes]"},
		{"abcd", 3, 10, "abc … [cut: 11 bytes]"},
		{"abc", 3, 10, "abc … [cut: 10 bytes]"},
		{"aüüü", 4, 0, "aü … [cut: 4 bytes]"},
	}
	for _, tt := range tests {
		if got := cut(tt.in, tt.limit, tt.dropped); got != tt.want || !utf8.ValidString(got) {
			t.Errorf("cut(%q, %d, %d) = %q, want %q", tt.in, tt.limit, tt.dropped, got, tt.want)
		}
	}
}
