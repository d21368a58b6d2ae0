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
		"env":         {judgeEnv, true, "the inner command is judged; alone it would print the environment"},
		"shell":       {judgeShell, true, "the script after -c is judged; a script of a repository, by its absolute path, needs Tier 3; standard input never"},
		"interpreter": {judgeInterpreter, true, "only scripts of a repository, by their absolute path; inline code never"},
		"ssh":         {judgeSSH, true, "inventory hosts only; the remote command is judged"},
		"exec":        {judgeExec, true, "the command inside the container is judged; looking only"},
		"xargs":       {judgeXargs, true, "the repeated command is judged; looking only"},
		"watch":       {judgeWatch, true, "the repeated command is judged; looking only"},
		"find":        {judgeFind, true, "-exec is judged, looking only; -delete, -fprint and -ok never"},
		"test":        {judgeTest, true, ""},
		"set":         {judgeSet, true, "options that do not change the language"},
		"declared":    {judgeDeclared, true, "name=value only; variables that change what programs do are refused"},
		"service":     {judgeService, true, "service NAME status at Tier 1; start, stop and restart at Tier 3"},
		"cd":          {judgeCd, false, "followed when its folder is literal"},
		"popd":        {judgePopd, false, ""},
		"names":       {judgeNames, false, ""},
		"sleep":       {judgeSleep, false, "at most ten minutes"},
		"looks":       {judgeLooksOnly, false, ""},
	}
}

// fileJudgements are about files and the small languages.
func fileJudgements() map[string]judgement {
	return map[string]judgement{
		"sed":       {judgeSed, true, "the script may neither run nor write; -i changes files"},
		"awk":       {judgeAwk, true, "the program may neither run, write, read other files nor see the environment"},
		"jq":        {judgeJq, true, "the filter may not see the environment"},
		"sql":       {judgeSQL, true, "one reading statement, given as text"},
		"redis":     {judgeRedis, true, "one reading command"},
		"dd":        {judgeDd, true, "if= is read, of= is written"},
		"tar":       {judgeTar, true, "listing and creating; unpacking only below the temporary folder"},
		"packer":    {judgePacker, true, "with -c, -l or -t looking, else the file is replaced"},
		"rm":        {judgeRm, true, "files by name; folders only below the temporary one and what builds leave behind"},
		"pager":     {judgePager, false, ""},
		"second":    {judgeSecondWrites, false, "a second operand is written"},
		"pattern":   {judgePattern, false, ""},
		"recursive": {judgeRecursive, false, ""},
		"cp":        {judgeCp, false, "folders only into the temporary one"},
		"mv":        {judgeMv, false, "files by name"},
		"chmod":     {judgeChmod, false, "never executable"},
		"zip":       {judgeZip, false, ""},
		"unzip":     {judgeUnzip, false, "-l, -p and -t only"},
		"sevenzip":  {judgeSevenZip, false, "l and t only"},
	}
}

// gitJudgements are about git and its hosts.
func gitJudgements() map[string]judgement {
	return map[string]judgement{
		"branch":     {judgeBranch, false, "listing at Tier 1, changing at Tier 2, by force at Tier 3"},
		"tag":        {judgeTag, false, "listing at Tier 1, making one at Tier 2"},
		"gitconfig":  {judgeGitConfig, false, "reading; user.name and user.email at Tier 2"},
		"oneoperand": {judgeOneOperand, false, "one operand only"},
		"remotename": {judgeRemoteName, false, "configured remotes only"},
		"add":        {judgeAdd, false, ""},
		"pathspec":   {judgePathspec, false, ""},
		"gitread":    {judgeGitRead, false, ""},
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
		"dockerread":    {judgeDockerRead, false, "the environment of containers is refused"},
		"dockertop":     {judgeDockerTop, false, ""},
		"composeread":   {judgeComposeRead, false, ""},
		"composeconfig": {judgeComposeConfig, false, "only with --services, --images, --volumes, --profiles, --networks, --hash, --quiet or --no-interpolate"},
		"composechange": {judgeComposeChange, false, "compose files of a repository only"},
		"composeup":     {judgeComposeUp, false, "with -d"},
		"compose":       {judgeCompose, false, "without a service Tier 3"},
		"playbook":      {judgePlaybook, false, "playbooks and inventories of a repository, plain variables"},
		"ansible":       {judgeAnsible, false, "--list-hosts at Tier 1, -m ping at Tier 3"},
		"inventory":     {judgeInventory, false, "inventories of a repository"},
		"helm":          {judgeHelm, false, "charts of a repository"},
		"chartread":     {judgeChartRead, false, "charts of a repository"},
		"kuberead":      {judgeKubeRead, false, "never secrets"},
		"kubechange":    {judgeKubeChange, false, "one named object, or a file of a repository"},
		"unit":          {judgeUnit, false, "not the units everything stands on"},
		"unitshow":      {judgeUnitShow, false, "with -p"},
		"make":          {judgeMake, false, "targets of a repository's makefile"},
	}
}

// hostJudgements are about the network and the host.
func hostJudgements() map[string]judgement {
	return map[string]judgement{
		"curl":         {judgeCurl, true, "GET from anywhere but the supervisor; changing requests to inventory hosts from Tier 2; what comes from elsewhere is not stored"},
		"wget":         {judgeWget, true, "GET; into a file only from inventory hosts"},
		"getent":       {judgeGetent, false, "not shadow"},
		"listed":       {judgeListed, false, "with -l"},
		"needsoperand": {judgeNeedsOperand, false, ""},
		"needsoption":  {judgeNeedsOption, false, "alone it would start"},
		"nc":           {judgeNc, false, "with -z"},
		"openssl":      {judgeOpenssl, false, "no data goes out"},
		"opensslread":  {judgeOpensslRead, false, ""},
		"mysqladmin":   {judgeMysqladmin, false, "status, ping, processlist, version, extended-status, variables"},
		"hostname":     {judgeHostname, false, "printing only"},
		"date":         {judgeDate, false, "printing only"},
		"ps":           {judgePs, false, "not the environment"},
		"ip":           {judgeIP, false, "showing only"},
		"sysctl":       {judgeSysctl, false, "reading only"},
		"mount":        {judgeMount, false, "listing only"},
		"query":        {judgeQuery, false, "-q and -Q only"},
	}
}
