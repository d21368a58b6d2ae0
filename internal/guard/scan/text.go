// Package scan reads what stands in the words of a command: quoted text, braces, durations, the commands of Redis, the arguments of ps,
// and what is known of the output of a pipeline.
package scan

import (
	"strconv"
	"strings"
)

// Letters are the characters of plain names.
const Letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// IsLetter reports a character that a name starts with.
func IsLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// ANSIC decodes the inside of $'…'. It gives up on what would end the string early.
func ANSIC(s string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		if k := strings.IndexByte(`abeEfnrtv\'"?`, s[i]); k >= 0 {
			out.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[k])
			continue
		}
		n, digits, isRune := 0, "", false
		switch s[i] {
		case 'x':
			digits = Run(s[i+1:], 2, "0123456789abcdefABCDEF")
			i += len(digits)
			n = number(digits, 16)
		case 'u', 'U':
			width := 4
			if s[i] == 'U' {
				width = 8
			}
			digits, isRune = Run(s[i+1:], width, "0123456789abcdefABCDEF"), true
			i += len(digits)
			n = number(digits, 16)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			digits = Run(s[i:], 3, "01234567")
			i += len(digits) - 1
			n = number(digits, 8)
		default: // \c and what bash may add one day
			return "", false
		}
		switch {
		case digits == "" || n == 0 || n > 0x10ffff:
			return "", false
		case isRune:
			out.WriteRune(rune(n))
		default:
			out.WriteByte(byte(n))
		}
	}
	return out.String(), true
}

// Run is the longest beginning of s, at most n long, made of the given characters.
func Run(s string, n int, of string) string {
	i := 0
	for i < len(s) && i < n && strings.IndexByte(of, s[i]) >= 0 {
		i++
	}
	return s[:i]
}

func number(digits string, base int) int {
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil {
		return 0
	}
	return int(n)
}

// Braces lists a,b,c or 1..5 or a..e; nothing when it is neither or too long.
func Braces(body string, most int) []string {
	if strings.Contains(body, ",") {
		if items := strings.Split(body, ","); len(items) <= most {
			return items
		}
		return nil
	}
	from, to, ok := strings.Cut(body, "..")
	if !ok {
		return nil
	}
	a, err1 := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	letters := len(from) == 1 && len(to) == 1 && err1 != nil && err2 != nil
	if letters {
		a, b = int(from[0]), int(to[0])
	} else if err1 != nil || err2 != nil || from != strconv.Itoa(a) || to != strconv.Itoa(b) {
		return nil
	}
	if a > b || b-a >= most {
		return nil
	}
	var out []string
	for n := a; n <= b; n++ {
		if letters {
			out = append(out, string(rune(n)))
		} else {
			out = append(out, strconv.Itoa(n))
		}
	}
	return out
}

// Expansions is about how many words the braces of a text become; never fewer, up to a million and more.
func Expansions(text string) int {
	total := 1
	for total < 1<<20 {
		end := strings.IndexByte(text, '}')
		start := strings.LastIndexByte(text[:max(end, 0)], '{')
		if start < 0 {
			if end < 0 {
				break
			}
			text = text[:end] + text[end+1:]
			continue
		}
		body := text[start+1 : end]
		text = text[:start] + text[end+1:]
		from, rest, ok := strings.Cut(body, "..")
		to, _, _ := strings.Cut(rest, "..")
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		switch {
		case !ok:
			total *= 1 + strings.Count(body, ",")
		case err1 == nil && err2 == nil:
			total *= 1 + min(max(a, b)-min(a, b), 1<<20)
		case len(from) > 9 || len(to) > 9:
			return 1 << 20 // numbers that are too large to read
		}
	}
	return total
}

// Seconds reads a duration such as 5, 0.5 or 2m.
func Seconds(text string) (float64, bool) {
	unit := 1.0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("smhd", text[n-1]); i >= 0 {
			text, unit = text[:n-1], []float64{1, 60, 3600, 86400}[i]
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	return v * unit, err == nil && strings.Trim(text, "0123456789.") == ""
}
