package ops

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Prose returns a text for people: one line, in which every JSON object is replaced by the words it holds. Errors of model APIs and
// the inputs of tools contain such objects.
func Prose(text string) string {
	var b strings.Builder
	for text != "" {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			break
		}
		b.WriteString(text[:at])
		text = text[at:]
		d := json.NewDecoder(strings.NewReader(text))
		var object map[string]any
		err := d.Decode(&object)
		switch rest := strings.TrimLeft(text[1:], " \n\t"); {
		case err == nil:
			b.WriteString(valueWords(object))
			text = text[d.InputOffset():]
		case strings.HasPrefix(rest, `"`): // an object that was cut off
			text = unquoted(rest)
		default:
			b.WriteByte('{')
			text = text[1:]
		}
	}
	return strings.Join(strings.Fields(b.String()+text), " ")
}

// telling are the fields of an object that say what it is about, the best first.
func telling() []string {
	return []string{"message", "error", "detail", "reason", "command", "file_path", "path", "url", "query", "pattern", "title"}
}

func valueWords(value any) string {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range telling() {
			if text := valueWords(v[name]); text != "" {
				return text
			}
		}
		var out []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text := valueWords(v[name]); text != "" {
				out = append(out, name+" "+text)
			}
		}
		return strings.Join(out, ", ")
	case []any:
		var out []string
		for _, one := range v {
			if text := valueWords(one); text != "" {
				out = append(out, text)
			}
		}
		return strings.Join(out, ", ")
	case nil:
		return ""
	}
	return fmt.Sprint(value)
}

// unquoted is what is left of an object that was cut off, without its marks.
func unquoted(text string) string {
	name, rest, found := strings.Cut(text[1:], `"`)
	value, ok := strings.CutPrefix(strings.TrimLeft(strings.TrimPrefix(rest, ":"), " "), `"`)
	if found && ok && slices.Contains(telling(), name) {
		text = value
	}
	d := json.NewDecoder(strings.NewReader(`"` + strings.TrimRight(strings.TrimSuffix(text, "…"), `\`) + `"`))
	var plain string
	if d.Decode(&plain) == nil {
		text = plain
	}
	return strings.NewReplacer(`{`, "", `}`, "", `"`, "", `\n`, " ").Replace(text)
}

var (
	// builtIn finds the ids of the handlers that every configuration has.
	builtIn = Pattern(`(^|[ (])tier([123])(-fallback|-codex)?([ ,.;:)]|$)`)
	// oneOfMany finds a number that its noun does not fit.
	oneOfMany = Pattern(`\b(?:all )?1 services( have)?\b`)
)

// Spoken is a recorded reason in the words of people: it names handlers by their ids, and people know tiers. What is recorded stays as it
// is, so that a decision can be compared with one that is made again.
func Spoken(text string) string {
	for range 2 { // two ids may share a blank
		text = builtIn().ReplaceAllStringFunc(text, func(found string) string {
			part := builtIn().FindStringSubmatch(found)
			tier := "Tier " + part[2]
			switch part[3] {
			case "-fallback":
				tier = "the stand-in of " + tier
			case "-codex":
				tier += " with Codex"
			}
			return part[1] + tier + part[4]
		})
	}
	for _, tier := range []string{"Tier 1", "Tier 2", "Tier 3"} {
		text = strings.NewReplacer(tier+" ("+tier+")", tier, tier+" ("+tier+", ", tier+" (").Replace(text)
	}
	return oneOfMany().ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, " have") {
			return "1 service has"
		}
		return "1 service"
	})
}

// Plural is a number with its noun.
func Plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// And joins the parts of a sentence: "a, b and c".
func And(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// mostListed is how many names a sentence lists.
const mostListed = 20

// Listed joins names for a sentence: "web, db", and of very many the first ones and how many more there are.
func Listed(names []string) string {
	if len(names) <= mostListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostListed], ", "), len(names)-mostListed)
}

// Said is what somebody, such as an agent, says inside a sentence of ours: quoted, on one line, and with nothing in it that cannot be seen.
func Said(who, text string) string {
	text = strings.Join(strings.Fields(Visible(text)), " ")
	if text == "" {
		return "it did not say why"
	}
	return "the " + who + " says “" + text + "”"
}

// Capital begins a sentence with a capital letter.
func Capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + text[size:]
}

// Spaced is a word of ours, such as waiting_human, as people read it.
func Spaced[T ~string](word T) string { return strings.ReplaceAll(string(word), "_", " ") }

// JSON is a value of ours as text that keeps < and & readable, in one line or indented. Only what cannot be encoded at all is null.
func JSON(value any, indent string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Span is a duration as people say it.
func Span(d time.Duration) string {
	d = max(0, d.Round(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60), " 0 s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60), " 0 min")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Cut is a text of at most so many characters. Of a longer one the end is missing, and the mark … says so.
func Cut(text string, most int) string {
	if First(text, most) == text {
		return text
	}
	return strings.TrimRight(First(text, most-1), " ") + "…"
}

// First is the first characters of a text.
func First(text string, n int) string {
	for at := range text {
		if n <= 0 {
			return text[:at]
		}
		n--
	}
	return text
}

// Start is the start of a text of at most so many bytes, in whole characters.
func Start(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Ends is a text, or its start and its end of at most so many bytes, in whole characters, with a mark between them.
func Ends(text string, start, end int, mark string) string {
	if len(text) <= start+end {
		return text
	}
	from := len(text) - end
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return Start(text, start) + mark + text[from:]
}

// OneLine is a text from outside as one line of at most so many characters: blanks and what cannot be seen are one blank.
func OneLine(text string, most int) string {
	return Cut(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "�"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " "), most)
}

// Unseen reports whether a character cannot be seen, or hides or reorders others: control characters but line feeds and tabs, zero-width
// and bidirectional ones.
func Unseen(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Visible is a text with a blank for each character that cannot be seen.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if Unseen(r) {
			return ' '
		}
		return r
	}, text)
}
