package guard

import (
	"strings"

	"claudeops/internal/ops"
)

// What prints one number, digits or nothing, and plain names: ids and names that engines, clusters and git hand out start with a letter or
// digit. A table has them in its first column.
var (
	printsNumber = ops.Pattern(`^(wc -[clmw]|nproc|date( -u)? \+%[sHMSdjYuN]|grep (-c|--count|-ci|-ic) \S+|id -[ug]|` +
		`stat (-c|--format) %[sYXZaugh] \S+)$`)
	printsDigits = ops.Pattern(`^tr (-dc|-cd) (0-9|\[:digit:\])$`)
	listsEngine  = ops.Pattern(`^(docker|podman|docker-compose)( compose)?( (-f|--file|-p|--project-name|--profile) \S+)*` +
		`( container| image| volume| network)? ((ps|ls|list|images)( \S+)*|config --services)$`)
	quietEngine   = ops.Pattern(` (-[a-z]*q[a-z]*|--quiet|--services)( |$)`)
	namesOfEngine = ops.Pattern(` --format[ =]\{\{\.(Names?|ID|Service|Repository)\}\}( |$)`)
	listsCluster  = ops.Pattern(`^kubectl( (-n|--namespace|--context) \S+)* get \S+( \S+)*$`)
	nameOfCluster = ops.Pattern(` (-o[ =]?|--output[ =])(name|jsonpath=\{(\.items\[[^\]]*\])?\.metadata\.name\}|` +
		`custom-columns=:\.?metadata\.name)( |$)`)
	printsNames = ops.Pattern(`^(pgrep( -[cfinouPUvxg]+| [^-]\S*)*|(seq|pidof|whoami|hostname|nproc)( [^-]\S*)*|uname( -\w+)*|` +
		`date( \S+)* \+[^-]\S*|git rev-parse( \S+)+|git branch --show-current)$`)
	firstColumn = ops.Pattern(`^(awk|cut -d -f1|cut -f1)( (NR>1|NR==2|NR!=1|/[^/]+/)?\{print\$1\})?$`)
	keepsLines  = ops.Pattern(`^((head|tail|sort)( -[^c-]\S*| \d+)*|uniq|cat|xargs|grep( -[EFivwqx]+)?( [^-]\S*)?)$`)
)

// pipelinePrints says what is known of the output of a pipeline, by the words of its commands.
func pipelinePrints(stages [][]string) value {
	var lines []string
	for _, words := range stages {
		for i, w := range words {
			words[i] = strings.ReplaceAll(w, " ", "")
		}
		lines = append(lines, strings.Join(words, " "))
	}
	first, last := lines[0], lines[len(lines)-1]
	switch {
	case printsNumber().MatchString(last),
		strings.HasPrefix(last, "curl ") && strings.Contains(last, " /dev/null") && strings.Contains(last, " -w %{http_code}"):
		return value{num: true, plain: true}
	case printsDigits().MatchString(last):
		return value{num: true, unset: true}
	}
	formatted := strings.Count(first, " --format") + strings.Count(first, " -o") + strings.Count(first, " --output")
	engine, cluster := listsEngine().MatchString(first), listsCluster().MatchString(first)
	names := printsNames().MatchString(first) || cluster && formatted == 1 && nameOfCluster().MatchString(first) ||
		engine && (formatted == 0 && quietEngine().MatchString(first) || formatted == 1 && namesOfEngine().MatchString(first))
	table := len(lines) > 1 && formatted == 0 && (engine || cluster) && firstColumn().MatchString(lines[1])
	for i, line := range lines[1:] {
		if !keepsLines().MatchString(line) && (i > 0 || !firstColumn().MatchString(line)) {
			return value{}
		}
	}
	return value{plain: names || table}
}
