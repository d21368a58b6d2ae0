package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of a document.
const (
	MaxBytes = 256 << 10
	MaxDepth = 16
	// maxNumber bounds a number's text and maxExponent its exponent: comparing 1e999999999 exactly takes gigabytes.
	maxNumber   = 400
	maxExponent = 400
)

// decode strictly turns a JSON document into a tree of maps, slices, strings, json.Number, bool and nil. It is false, with the reasons
// noted, when the text is no such document.
func (f *Findings) decode(raw []byte) (tree any, ok bool) {
	if message := refuse(raw); message != "" {
		f.refuse(nil, "%s", message)
		return nil, false
	}
	d := decoder{Findings: f, dec: json.NewDecoder(bytes.NewReader(raw))}
	d.dec.UseNumber()
	tree, err := d.value()
	if err != nil { // refuse has read the whole text already
		f.refuse(nil, "is not valid JSON: %v", err)
	}
	f.Errors = slices.Compact(f.Errors) // a key that is there three times
	return tree, f.OK()
}

// Ambiguous says why two programs could read a JSON text differently: broken UTF-8, or a key that is there twice. It is empty for any
// other text, also for one that is no JSON.
func Ambiguous(raw []byte) string {
	if utf8.Valid(raw) && !json.Valid(raw) {
		return ""
	}
	var f Findings
	if _, ok := f.decode(raw); ok {
		return ""
	}
	return strings.TrimSpace(f.Errors[0].Pointer + " " + f.Errors[0].Message)
}

// refuse says what makes the text no JSON text at all, or nothing.
func refuse(raw []byte) string {
	switch {
	case len(raw) > MaxBytes:
		return fmt.Sprintf("is larger than %d KiB", MaxBytes>>10)
	case len(bytes.TrimSpace(raw)) == 0:
		return "is empty"
	case bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")):
		return "starts with a byte order mark; write plain UTF-8"
	case !utf8.Valid(raw):
		return fmt.Sprintf("is not valid UTF-8 at byte %d", validPrefix(raw))
	case depth(raw) > MaxDepth:
		return fmt.Sprintf("is nested deeper than %d", MaxDepth)
	}
	if err := json.Unmarshal(raw, new(json.RawMessage)); err != nil {
		return "is not valid JSON: " + place(raw, err)
	}
	if at := loneSurrogate(raw); at >= 0 {
		return fmt.Sprintf("holds half of a surrogate pair at byte %d, which is no character", at)
	}
	return ""
}

func validPrefix(raw []byte) int {
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(raw)
}

// depth is the deepest nesting of the text; it does not need the text to be valid.
func depth(raw []byte) int {
	var deepest, now int
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

func place(raw []byte, err error) string {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err.Error()
	}
	before := raw[:min(int(syntax.Offset), len(raw))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
	return fmt.Sprintf("line %d, column %d: %s", line, max(column, 1), syntax.Error())
}

// loneSurrogate finds an escaped UTF-16 half without its other half in valid JSON, or returns -1.
// encoding/json would replace it silently, so two different keys could become the same.
func loneSurrogate(raw []byte) int {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if raw[i+1] != 'u' {
			i++
			continue
		}
		r := escaped(raw[i:])
		if !utf16.IsSurrogate(r) {
			i += 5
			continue
		}
		if utf16.DecodeRune(r, escaped(raw[i+6:])) == utf8.RuneError {
			return i
		}
		i += 11
	}
	return -1
}

func escaped(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}

// decoder walks valid JSON of bounded depth.
type decoder struct {
	*Findings

	dec  *json.Decoder
	path []string
}

func (d *decoder) value() (any, error) {
	token, err := d.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return d.object()
		}
		return d.array()
	case json.Number:
		if !reasonable(t) {
			d.refuse(d.path, "is a number out of range (is %s)", oneLine(t.String()))
		}
		return t, nil
	default:
		return t, nil
	}
}

func (d *decoder) object() (any, error) {
	object := map[string]any{}
	for d.dec.More() {
		token, err := d.dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("object key %v is no string", token)
		}
		d.path = append(d.path, key)
		if _, twice := object[key]; twice {
			d.refuse(d.path, "is there more than once")
		}
		if object[key], err = d.value(); err != nil {
			return nil, err
		}
		d.path = d.path[:len(d.path)-1]
	}
	_, err := d.dec.Token()
	return object, err
}

func (d *decoder) array() (any, error) {
	array := []any{}
	for d.dec.More() {
		d.path = append(d.path, strconv.Itoa(len(array)))
		item, err := d.value()
		if err != nil {
			return nil, err
		}
		d.path = d.path[:len(d.path)-1]
		array = append(array, item)
	}
	_, err := d.dec.Token()
	return array, err
}

func reasonable(n json.Number) bool {
	text := n.String()
	if len(text) > maxNumber {
		return false
	}
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return true
	}
	exponent, err := strconv.Atoi(text[at+1:])
	return err == nil && exponent >= -maxExponent && exponent <= maxExponent
}
