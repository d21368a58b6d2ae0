package guard

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// param evaluates $x and ${x…} and judges what stands inside it.
func (j *judge) param(s *scope, p *syntax.ParamExp) value {
	if p.Param == nil || p.Flags != nil || p.NestedParam != nil {
		j.refuse(ruleRunTime, "this expansion", "its value is known only at run time", "write the value out")
		return value{}
	}
	name := p.Param.Value
	j.exposes(s, name)
	if p.Index != nil && !allElements(p.Index) {
		j.arithmetic(s, p.Index)
	}
	if p.Slice != nil {
		j.arithmetic(s, p.Slice.Offset)
		j.arithmetic(s, p.Slice.Length)
	}
	if p.Repl != nil {
		j.one(s, p.Repl.Orig)
		j.one(s, p.Repl.With)
	}
	if p.Exp != nil {
		j.expansion(s, name, p.Exp)
	}
	switch {
	case p.Excl && p.Names == 0 && p.Index == nil:
		j.refuse(ruleRunTime, "${!"+name+"}", "it reads a variable whose name is known only at run time", "name the variable")
		return value{}
	case p.Length:
		return value{num: true}
	case name == "?" || name == "#" || name == "$": // not $!, which may be empty
		return value{num: true}
	case countsItself(name) && !s.has(name) && p.Exp == nil:
		return value{num: true}
	case name == "@" || name == "*" || p.Index != nil || p.Excl:
		return value{many: name != "*"}
	case p.Slice != nil || p.Repl != nil || p.Exp != nil:
		return value{}
	case name == "PWD" && len(s.cwds) == 1 && path.IsAbs(s.cwds[0]) && !s.remote && !s.container:
		return value{known: true, text: s.cwds[0]}
	}
	return s.vars[name]
}

// expansion judges the operator of ${x:-…} and its like.
func (j *judge) expansion(s *scope, name string, e *syntax.Expansion) {
	word := j.one(s, e.Word)
	switch e.Op {
	case syntax.OtherParamOps:
		if strings.ContainsAny(word.text, "PA") {
			j.refuse(ruleRunTime, "${"+name+"@"+word.show()+"}", "it turns text into code", "")
		}
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		j.variable(name, value{}, false)
		s.set(name, value{})
	default:
	}
}

func allElements(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

// exposes refuses to expand a variable of the environment that may hold a secret.
func (j *judge) exposes(s *scope, name string) {
	_, assigned := s.vars[name]
	switch {
	case strings.HasSuffix(name, "_proxy"):
	case name != strings.ToUpper(name) || harmlessEnv().MatchString(name):
		return
	case assigned && !secretName().MatchString(name):
		return
	}
	j.refuse(ruleSecrets, "$"+name, "the environment may hold secrets", "use what the programs print, not the environment")
}

// secretName matches names that hold secrets by custom, whoever set them.
var secretName = ops.Pattern(`TOKEN|SECRET|PASSW|PASSPHRASE|APIKEY|API_KEY|_KEY|CRED|PRIVATE|_AUTH|DSN|DATABASE_URL|PGPASS|MYSQL_PWD|` +
	`_PASS|COOKIE|WEBHOOK|PROXY|ANTHROPIC|CLAUDE|SESSION`)

// harmlessEnv matches the variables that every shell has, positional and special parameters too.
var harmlessEnv = ops.Pattern(`^([^A-Z].*|HOME|(OLD)?PWD|USER|LOGNAME|SHELL|HOSTNAME|PATH|LANG|LC_.*|TERM|TZ|E?UID|GROUPS|PPID|S?RANDOM|` +
	`SECONDS|EPOCH(SECONDS|REALTIME)|LINENO|COLUMNS|LINES|IFS|OSTYPE|HOSTTYPE|MACHTYPE|BASH|BASHPID|BASH_(VERSION|SUBSHELL|REMATCH)|SHLVL|` +
	`TMPDIR|EDITOR|PIPESTATUS|FUNCNAME|REPLY|OPTARG|OPTIND|DISPLAY|CLAUDEOPS_(STATE_DIR|DRY_RUN|TIER|ROLE|HANDLER|CYCLE_ID|SESSION_ID))?$`)

// assign judges x=… and remembers what is known of x.
func (j *judge) assign(s *scope, a *syntax.Assign, env bool) {
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	if a.Index != nil {
		j.arithmetic(s, a.Index)
	}
	v := value{}
	if a.Array != nil {
		v.list = j.array(s, a.Array)
	} else if a.Value != nil {
		f := j.one(s, a.Value)
		v = value{known: !f.dyn && !f.proc, text: f.text, glob: f.glob}
		if f.dyn && f.text == string(rune(hole)) {
			v.num, v.plain, v.temp = f.num, f.plain, f.temp
		}
	} else {
		v.known = true
	}
	j.variable(name, v, env)
	if a.Append || a.Index != nil {
		v = value{}
	}
	if !env {
		s.set(name, v)
	}
}

// array judges the elements of an array and returns them where all are known.
func (j *judge) array(s *scope, a *syntax.ArrayExpr) (list []string) {
	known := len(a.Elems) <= maxItems
	for _, e := range a.Elems {
		if known = known && e.Index == nil; e.Index != nil {
			j.arithmetic(s, e.Index)
		}
		if e.Value != nil {
			for _, f := range j.fields(s, e.Value) {
				known = known && !f.dyn && !f.glob && !f.proc
				list = append(list, f.text)
			}
		}
	}
	if !known {
		return nil
	}
	return list
}

// elements are the words that "${list[@]}" becomes, or a variable with blanks outside quotes, where the script says what is in it;
// or the file that mktemp made.
func (j *judge) elements(s *scope, w *syntax.Word) (out []field) {
	if len(w.Parts) != 1 {
		return nil
	}
	quotes, quoted := w.Parts[0].(*syntax.DblQuoted)
	parts := w.Parts
	if quoted {
		parts = quotes.Parts
	}
	if len(parts) != 1 || quoted && quotes.Dollar {
		return nil
	}
	p, ok := parts[0].(*syntax.ParamExp)
	if !ok || p.Param == nil || p.Excl || p.Length || p.Slice != nil || p.Repl != nil || p.Exp != nil || p.Flags != nil {
		return nil
	}
	v := s.vars[p.Param.Value]
	if v.temp && quoted && p.Index == nil {
		return []field{{text: path.Join(j.facts.TempDir, "tmp.mktemp"), temp: true, at: w}}
	}
	list := strings.Fields(v.text)
	switch {
	case p.Index != nil && quoted && allElements(p.Index) && p.Index.(*syntax.Word).Lit() == "@":
		list = v.list
	case p.Index != nil || quoted || !v.known || v.glob || len(list) < 2, s.has("IFS") || strings.ContainsAny(v.text, "*?[\\"):
		return nil
	}
	j.exposes(s, p.Param.Value)
	for _, text := range list {
		out = append(out, field{text: text, viaVar: true, at: w})
	}
	return out
}

// variable judges that a variable is set: in the environment of programs only what a list allows, in the shell anything
// but what the shell itself or a program obeys.
func (j *judge) variable(name string, v value, env bool) {
	ok := false
	switch j.g.variables.verdict(name) {
	case "own":
		j.refuse(ruleOwn, name+"=", "the variable belongs to the supervisor or to a nested agent", "leave it alone")
		return
	case "cat":
		ok = v.known && (v.text == "cat" || v.text == "0" || v.text == "")
	case "path":
		ok = v.known && standardPath(v.text)
	case "temp":
		ok = v.known && within(v.text, j.facts.TempDir)
	case "zone":
		ok = v.known && strings.Trim(v.text, letters+"/+-") == "" && !strings.HasPrefix(v.text, "/")
	case "plain":
		ok = v.known && strings.Trim(v.text, letters+".@:,-") == ""
	case "text", "shell":
		ok = true
	case "written":
		ok = v.known
	case "refuse":
	default:
		ok = !env || len(name) == 1 || name == strings.ToLower(name)
	}
	if !ok {
		j.refuse(ruleRunTime, name+"=", "the variable changes which code a program runs or where it connects, or is not on the list",
			"run the command without it")
	}
}

// standardPath reports whether a PATH value holds system directories only.
func standardPath(list string) bool {
	for dir := range strings.SplitSeq(list, ":") {
		if !standardDir(dir) {
			return false
		}
	}
	return true
}

// unsettable refuses to remove variables that others obey.
func (j *judge) unsettable(name string) {
	switch j.g.variables.verdict(name) {
	case "own":
		j.refuse(ruleOwn, "unset "+name, "the variable belongs to the supervisor", "leave it alone")
	case "path":
		j.refuse(ruleRunTime, "unset "+name, "programs of the current folder would run without it", "leave it alone")
	}
}

// assigned are the variables a node sets.
func assigned(n syntax.Node) []assignment {
	var out []assignment
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				out = append(out, assignment{n.Name.Value, numericAssign(n)})
			}
		case *syntax.WordIter:
			out = append(out, assignment{name: n.Name.Value})
		case *syntax.CallExpr:
			out = append(out, assignedBy(n)...)
		case *syntax.ParamExp:
			if n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				out = append(out, assignment{name: n.Param.Value})
			}
		}
		return true
	})
	return out
}

// numericAssign reports i=$((i+1)) and i=0.
func numericAssign(a *syntax.Assign) bool {
	if a.Append || a.Index != nil || a.Value == nil || len(a.Value.Parts) != 1 {
		return false
	}
	switch p := a.Value.Parts[0].(type) {
	case *syntax.ArithmExp:
		return true
	case *syntax.Lit:
		return isDigits(p.Value)
	}
	return false
}

// assignedBy are the plain words after builtins that set variables.
func assignedBy(c *syntax.CallExpr) []assignment {
	args := c.Args
	for len(args) > 0 && (args[0].Lit() == "command" || args[0].Lit() == "builtin") {
		args = args[1:]
	}
	if len(args) == 0 {
		return nil
	}
	switch args[0].Lit() {
	case "read", "mapfile", "readarray", "printf", "getopts", "export", "declare", "local", "typeset", "readonly", "unset", "wait":
	default:
		return nil
	}
	var out []assignment
	for _, w := range args[1:] {
		if name := w.Lit(); syntax.ValidName(name) {
			out = append(out, assignment{name: name})
		}
	}
	return out
}

// declare judges export, declare, local, readonly and typeset.
func (j *judge) declare(s *scope, c *syntax.DeclClause) {
	kind, named, env := c.Variant.Value, false, c.Variant.Value == "export"
	if kind == "nameref" {
		j.refuse(ruleRunTime, kind, "a name reference is known only at run time", "")
	}
	for _, a := range c.Args {
		if a.Name == nil {
			f := j.one(s, a.Value)
			j.declareOption(kind, f)
			env = env || strings.Contains(f.text, "x")
			continue
		}
		named = true
		if a.Naked {
			j.variable(a.Name.Value, s.vars[a.Name.Value], env)
			continue
		}
		if env {
			j.assign(s, a, true)
		}
		j.assign(s, a, false)
	}
	if !named {
		j.refuse(ruleSecrets, kind, "it prints the environment, which may hold secrets", "name the one variable you set")
	}
}

// declareOption judges a word that is no plain assignment.
func (j *judge) declareOption(kind string, f field) {
	text, ok := f.literal()
	switch {
	case !ok || !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "+"):
		j.refuse(ruleRunTime, kind+" "+f.show(), "what it declares is known only at run time", "write name=value")
	case strings.ContainsAny(text, "in"):
		j.refuse(ruleRunTime, kind+" "+text, "it evaluates the value as code", "use a plain variable")
	case strings.ContainsAny(text, "pfF") && kind != "local":
		j.refuse(ruleSecrets, kind+" "+text, "it prints or exports more than one value", "name the one variable you set")
	case strings.Trim(text, "-+rxga") != "":
		j.refuse(ruleRunTime, kind+" "+text, "it changes the value or how it is read", "use a plain variable")
	}
}

// declared judges the same builtins where the parser does not know them, as in POSIX shell.
func (j *judge) declared(s *scope, kind string, args []field) {
	named := false
	for _, f := range args {
		name, text, has := strings.Cut(f.text, "=")
		switch {
		case syntax.ValidName(name):
			named = true
			v := value{known: has && !f.dyn && !f.viaVar, text: text}
			j.variable(name, v, true)
			s.set(name, v)
		default:
			j.declareOption(kind, f)
		}
	}
	if !named {
		j.refuse(ruleSecrets, kind, "it prints the environment, which may hold secrets", "name the one variable you set")
	}
}

// define refuses a function, after a look at what it would do.
func (j *judge) define(s *scope, d *syntax.FuncDecl) {
	j.refuse(ruleRunTime, "a function", "it runs where it is called", "write the commands out where they are to run")
	if d.Body != nil {
		j.stmt(s.sub(), d.Body)
	}
}
