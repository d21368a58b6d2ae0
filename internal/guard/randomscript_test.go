//go:build linux

package guard

import (
	"math/rand/v2"
	"strings"
)

// randomScript makes a script out of the places where shells and parsers are known to differ. Its programs take any
// argument at Tier 1, so that the guard has no reason to stop reading.
func randomScript(rng *rand.Rand) string {
	s := randomList(rng, rng.IntN(3))
	for range rng.IntN(3) {
		s = mutate(rng, s)
	}
	return s
}

func pick(rng *rand.Rand, from ...string) string { return from[rng.IntN(len(from))] }

func randomList(rng *rand.Rand, depth int) string {
	var b strings.Builder
	for range 1 + rng.IntN(3) {
		b.WriteString(randomCommand(rng, depth))
		b.WriteString(pick(rng, ";", "\n", " && ", " || ", " | ", "; ", "\n\n", " ;\n"))
	}
	return b.String() + randomSimple(rng, 0)
}

func randomCommand(rng *rand.Rand, depth int) string {
	if depth <= 0 {
		return randomSimple(rng, depth)
	}
	list := func() string { return randomList(rng, depth-1) }
	switch rng.IntN(20) {
	case 14:
		return pick(rng, "[[ ", "[[ -n ", "[[ a == ", "[[ a =~ ") + randomWord(rng, depth-1) + pick(rng, " ]]", " || a ]]", " ]] && dirname")
	case 15:
		return "a=(" + randomWord(rng, depth-1) + " " + randomInner(rng) + ")"
	case 16:
		return "case " + randomWord(rng, 0) + " in " + randomInner(rng) + ") dirname;; " + pick(rng, "@(a|b)", "[ab]*", "*") + ") dirname;; esac"
	case 17:
		return "function f { " + list() + "; }; f"
	case 18:
		return "time " + pick(rng, "", "-p ") + randomSimple(rng, depth)
	case 0:
		return "(" + list() + ")"
	case 1:
		return "{ " + list() + "; }"
	case 2:
		return "if " + list() + "; then " + list() + "; fi"
	case 3:
		return "for x in a b; do " + list() + "; done"
	case 4:
		return "case a in a) " + list() + ";; " + pick(rng, "b) dirname;;", "(b|c) dirname;&", "*) dirname;;&") + " esac"
	case 5:
		return "f() { " + list() + "; }; f"
	case 6:
		return "! " + randomCommand(rng, depth-1)
	case 7:
		return randomSimple(rng, depth) + pick(rng, " # c", " #c", "# c", "\\#x") + "\n" + randomSimple(rng, 0)
	case 8:
		return randomDocument(rng)
	default:
		return randomSimple(rng, depth)
	}
}

func randomDocument(rng *rand.Rand) string {
	end := pick(rng, "E", "'E'", "\"E\"", "\\E", "E\"F\"")
	plain := strings.NewReplacer("'", "", "\"", "", "\\", "").Replace(end)
	return "expr " + pick(rng, "<<", "<<-") + end + pick(rng, "", " | basename", "; basename", " # x") + "\n" +
		pick(rng, "text", "$(dirname)", "`dirname`", "${x:-$(dirname)}", "\\$(dirname)", "a\\") + "\n" + plain + "\n" + randomSimple(rng, 0)
}

func randomSimple(rng *rand.Rand, depth int) string {
	var b strings.Builder
	if rng.IntN(3) == 0 {
		b.WriteString(randomAssignment(rng))
	}
	b.WriteString(pick(rng, "", "", "", "A=1 ", "2>&1 ", "<<<x ", "A=$(cal) ", "A=(1 2); "))
	b.WriteString(pick(rng, "seq", "expr", "basename", "\\seq", "'expr'", "s\"e\"q", "s\\\neq", "$'basename'"))
	for range rng.IntN(4) {
		b.WriteString(pick(rng, " ", "  ", "\t", " \\\n"))
		b.WriteString(randomWord(rng, depth))
	}
	b.WriteString(pick(rng, "", "", "", " >o", " 2>&1", " <<<w", " >o 2>&1", " <o", " &>o"))
	return b.String()
}

// randomAssignment changes what later words mean.
func randomAssignment(rng *rand.Rand) string {
	return pick(rng, "x=a", "x=", "x='a b'", "x=\"c\"", "x=$(dirname)", "x+=b", "x=$x$x", "unset x", "read x <<<w", "read -r x y <<<'v w'", "export x=d", "declare x=e",
		"readonly z=1", "x=*", "x='*'", "x={a,b}", "x=$'e\\tf'", "x=1", "x=$((x+1))", "printf -v x g", "x=h true", "x=(i k)", "x[1]=l", ": ${x:=m}", "f() { x=n; }; f",
		"(x=o)", "x=p | true", "true | x=q", "false && x=r", "true || x=s", "if true; then x=t; fi", "while false; do x=u; done", "for x in v w; do :; done",
		"for ((x=0; x<2; x++)); do :; done", "case a in b) x=y;; esac", "set -- 1 2", "IFS=:", "x=a:b", "mapfile -t x <<<w", "getopts a x", "{ x=z; }",
		"f() { local x=aa; expr $x; }; f", "x=bb; f() { expr $x; x=cc; }; f", "let x=2", "((x=3))", "x=$(true; exit 3)", "declare -a x", "declare -i x=1", "declare -u x=ab",
		"shopt -s nullglob", "set -f", "y=$x") + pick(rng, "; ", "\n", " && ", " || ")
}

func randomWord(rng *rand.Rand, depth int) string {
	inner := "dirname"
	if depth > 0 {
		inner = randomList(rng, depth-1)
	}
	switch rng.IntN(22) {
	case 16:
		return "${x" + pick(rng, ":-", "-", ":=", ":+", "#", "%", "/", "//a/", ":", "^", "@") + randomInner(rng) + "}"
	case 17:
		return "\"${x:-" + randomInner(rng) + "}\""
	case 18:
		return "$(" + pick(rng, "expr <<E\n$(dirname)\nE\n", "dirname # c\n", "<o", " (dirname)", "case a in a) dirname;; esac") + ")"
	case 19:
		return "a" + randomInner(rng)
	case 20:
		return pick(rng, "$[1+1]", "$'\\x24(dirname)'", "$\"$(dirname)\"", "a=b", "a[1]=b", "--x=$(dirname)", "x`dirname`y")
	case 0:
		return "\"$(" + inner + ")\""
	case 1:
		return "`dirname`"
	case 2:
		return "${x:-$(dirname)}"
	case 3:
		return "$((1+" + pick(rng, "2", "3", "4", "5", "$(cal)") + "))"
	case 4:
		return "<(dirname)"
	case 5:
		return "'a # b; dirname'"
	case 6:
		return "\"a # b; dirname\""
	case 7:
		return pick(rng, "#", "#x", "x#y", "\\#", "'#'", "$#", "${#x}")
	case 8:
		return pick(rng, "\\;", "\\&", "\\|", "\\(", "';'", "a\\ b")
	case 9:
		return pick(rng, "{a,b}", "{1..3}", "a*", "[ab]", "?")
	case 10:
		return pick(rng, "$'a\\'b'", "$\"x\"", "$'\\u0041\\t\\101\\e'", "\"\\a\\$\\\"\"", "a\\'b", "''", "\"\"")
	case 11, 12, 13:
		return pick(rng, "$x", "\"$x\"", "${x}", "a$x", "$x$x", "\"$x b\"", "${x}*", "$y", "$1", "\"$@\"", "$*", "${x[0]}", "${x[@]}", "${x:0:1}", "${x/a/b}", "${x^^}", "${#x}", "${x-c}", "'$x'", "\\$x")
	default:
		return pick(rng, "a", "b", "-x", "--y=z", "1", "w=v")
	}
}

// randomInner is what may stand inside braces, parentheses and patterns.
func randomInner(rng *rand.Rand) string {
	return pick(rng, "$(dirname)", "`dirname`", "<(dirname)", ">(dirname)", "<<<(dirname)", "\"$(dirname)\"", "'$(dirname)'", "\\$(dirname)", "a\\}b", "'}'", "\"}\"",
		"{a,b}", "$'\\x41'", "$((1+1))", "#x", "\\ ", "\"a b\"", "$x", "${y:-$(dirname)}", "a", "@", "*", "[ab]", "!x", "\\(", "\\)", "=", "1")
}

// mutate changes a script at one place.
func mutate(rng *rand.Rand, s string) string {
	if s == "" {
		return "seq"
	}
	i := rng.IntN(len(s))
	noise := pick(rng, "#", "'", "\"", "`", "$", "(", ")", "{", "}", ";", "&", "|", "<", ">", "!", "\\", "\\\n", "\n", " ", "\t", "\r", "\v", "\f",
		"\u00a0", "\u200b", "[", "]", "*", "=", "((", "))", "$((", "[[", "]]", "<<", "<<<", "&&", "||", ";;", "\ndirname\n", " dirname ", ";dirname;",
		"$(dirname)", "#\\\ndirname", "function ")
	switch rng.IntN(3) {
	case 0:
		return s[:i] + s[min(i+1+rng.IntN(3), len(s)):]
	case 1:
		return s[:i] + noise + s[min(i+1, len(s)):]
	default:
		return s[:i] + noise + s[i:]
	}
}
