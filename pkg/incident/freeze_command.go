package incident

import (
	"regexp"
	"slices"
)

// hidden stands for what may be a secret.
const hidden = "***"

var (
	// secretName is in the name of an option or a variable whose value may be a secret.
	secretName = `(?i)[\w-]*(?:pass|secret|token|key|auth|credential|dsn)[\w-]*`
	// assigned is such a name with its value, within one word, a whole shell script or JSON.
	assigned = regexp.MustCompile(`(` + secretName + `["']?(?:=|:\s*))("[^"]*"|'[^']*'|[^\s"']+)`)
	// option is such a name alone: its value is the next word.
	option = regexp.MustCompile(`^--?` + secretName + `$`)
	// within is an option with its value in a shell script.
	within = regexp.MustCompile(`(--?` + secretName + `\s+)("[^"]*"|'[^']*'|[^\s"']+)`)
	// login is the password in an address.
	login = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)
)

// hideSecrets gives a command line without what its options, variables and addresses may hold of secrets: what is written
// down as evidence is shown to many.
func hideSecrets(command []string) []string {
	out := slices.Clone(command)
	for i, word := range out {
		if i > 0 && option.MatchString(command[i-1]) {
			out[i] = hidden
			continue
		}
		word = login.ReplaceAllString(word, "${1}"+hidden+"@")
		word = assigned.ReplaceAllString(word, "${1}"+hidden)
		out[i] = within.ReplaceAllString(word, "${1}"+hidden)
	}
	return out
}
