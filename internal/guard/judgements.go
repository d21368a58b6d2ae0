package guard

import "maps"

// judgement is code that looks at the arguments of a command; the tables name it. A whole one replaces the general look
// at options and operands.
type judgement struct {
	judge func(*call)
	whole bool
	note  string // for the rules page
}

func judgements() map[string]judgement {
	all := map[string]judgement{}
	for _, part := range []map[string]judgement{shellJudgements(), fileJudgements(), gitJudgements(), deployJudgements(), hostJudgements()} {
		maps.Copy(all, part)
	}
	return all
}

// shellJudgements are about shells, wrappers and builtins.
func shellJudgements() map[string]judgement {
	return map[string]judgement{
		"env": {judgeEnv, true, "the inner command is judged; alone it would print the environment"},
		"shell": {
			judgeShell,
			true,
			"the script after -c is judged; a script of a repository, by its absolute path, needs Tier 3; standard input never",
		},
		"interpreter": {judgeInterpreter, true, "only scripts of a repository, by their absolute path; inline code never"},
		"ssh":         {judgeSSH, true, "inventory hosts only; the remote command is judged"},
		"exec":        {judgeExec, true, "the command inside the container is judged; looking only"},
		"xargs":       {judgeXargs, true, "the repeated command is judged; looking only"},
		"watch":       {judgeWatch, true, "the repeated command is judged; looking only"},
		"find":        {judgeFind, true, "-exec is judged, looking only; other actions never"},
		"test":        {judgeTest, true, "simple comparisons"},
		"set":         {judgeSet, true, "options that do not change the language"},
		"declared":    {judgeDeclared, true, "name=value only; variables that change what programs do are refused"},
		"service":     {judgeService, true, "service NAME status at Tier 1; start, stop and restart at Tier 3"},
		"cd":          {judgeCd, false, "followed when its folder is literal"},
		"popd":        {judgePopd, false, ""},
		"names":       {judgeNames, false, ""},
		"sleep":       {judgeSleep, false, "at most ten minutes"},
	}
}

// fileJudgements are about files and the small languages.
func fileJudgements() map[string]judgement {
	return map[string]judgement{
		"sed":       {judgeSed, false, "the script may neither run, read nor write; -i changes files"},
		"yq":        {judgeYq, false, "the filter may not see the environment; -i changes files"},
		"sql":       {judgeSQL, false, "reading statements, given as text"},
		"redis":     {judgeRedis, true, "one reading command"},
		"dd":        {judgeDd, true, "if= is read, of= is written"},
		"tar":       {judgeTar, true, "listing and creating; unpacking only below the temporary folder"},
		"packed":    {judgePacked, false, "the file is replaced"},
		"rm":        {judgeRm, false, "files by name; folders only below the temporary one and what builds leave behind"},
		"recursive": {judgeRecursive, false, ""},
		"cp":        {judgeCp, false, "folders only into the temporary one"},
		"mv":        {judgeMv, false, "files by name"},
		"zip":       {judgeZip, false, ""},
	}
}

// gitJudgements are about git and its hosts.
func gitJudgements() map[string]judgement {
	return map[string]judgement{
		"branch":     {judgeBranch, false, "listing at Tier 1, changing at Tier 2, by force at Tier 3"},
		"tag":        {judgeTag, false, "listing at Tier 1, making one at Tier 2"},
		"gitconfig":  {judgeGitConfig, false, "reading; user.name and user.email at Tier 2"},
		"remotename": {judgeRemoteName, false, "configured remotes only"},
		"push":       {judgePush, false, "branches of a configured remote; never by force"},
		"checkout":   {judgeCheckout, false, "branches, or files by name"},
		"gitrm":      {judgeGitRm, false, "files by name"},
		"reset":      {judgeReset, false, "--hard at Tier 3, to HEAD only"},
		"ghapi":      {judgeGhAPI, false, "GET only"},
	}
}

// deployJudgements are about containers and deployments.
func deployJudgements() map[string]judgement {
	return map[string]judgement{
		"top":           {judgeTop, false, ""},
		"composeread":   {judgeComposeRead, false, ""},
		"composechange": {judgeComposeChange, false, "compose files of a repository only"},
		"compose":       {judgeCompose, false, "without a service Tier 3"},
		"playbook":      {judgePlaybook, false, "playbooks and inventories of a repository, plain variables"},
		"ansible":       {judgeAnsible, false, "--list-hosts at Tier 1, -m ping at Tier 3"},
		"inventory":     {(*call).inventory, false, "inventories of a repository"},
		"helm":          {judgeHelm, false, "charts of a repository"},
		"chartread":     {judgeChartRead, false, "charts of a repository"},
		"kuberead":      {judgeKubeRead, false, "never secrets"},
		"kubechange":    {judgeKubeChange, false, "one named object, or a file of a repository"},
		"make":          {judgeMake, false, "targets of a repository's makefile"},
	}
}

// hostJudgements are about the network and the host.
func hostJudgements() map[string]judgement {
	return map[string]judgement{
		"curl": {
			judgeCurl,
			true,
			"GET from anywhere but the supervisor; changing requests to inventory hosts from Tier 2; what comes from elsewhere is not stored",
		},
		"wget":  {judgeWget, false, "GET; into a file only from inventory hosts"},
		"tls":   {judgeTLS, false, "no data goes out"},
		"units": {judgeUnits, false, "not the environment of services"},
		"ps":    {judgePs, false, "not the environment"},
	}
}
