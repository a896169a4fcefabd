package discover

import (
	"path"
	"slices"
	"strings"
)

// option is the value of an option in a command line: --name value or --name=value; the last one counts.
func option(command []string, name string) (value string) {
	for i, word := range command {
		if rest, ok := strings.CutPrefix(word, name+"="); ok {
			value = rest
		} else if word == name && i+1 < len(command) {
			value = command[i+1]
		}
	}
	return value
}

// flag is the value of an option of one letter: -D value or -Dvalue.
func flag(command []string, name string) (value string) {
	for i, word := range command {
		if word == name && i+1 < len(command) {
			value = command[i+1]
		} else if rest, ok := strings.CutPrefix(word, name); ok && !strings.HasPrefix(word, "--") && rest != "" {
			value = rest
		}
	}
	return value
}

// configured reports whether a Redis was started with a configuration file, in which anything may be.
func configured(command []string) bool {
	return slices.ContainsFunc(command, func(word string) bool { return path.Ext(word) == ".conf" })
}

// FromCommand gives the settings that a store's command line says, where the store could not be asked. whole reports
// whether what it does not say is as the store is shipped: no configuration file was named.
func FromCommand(k Kind, command []string) (settings map[string]string, whole bool) {
	settings = map[string]string{}
	switch k {
	case Redis:
		whole = !configured(command)
		if whole {
			settings = map[string]string{"appendonly": "no", "appendfsync": "everysec", "save": "3600 1 300 100 60 10000",
				"maxmemory": "0", "maxmemory-policy": "noeviction", "shutdown-on-sigterm": "default"}
		}
		for i := 0; i < len(command); i++ {
			name, ok := strings.CutPrefix(command[i], "--")
			if !ok || !slices.Contains(Wants(Redis), strings.ToLower(name)) {
				continue
			}
			var words []string
			for i+1 < len(command) && !strings.HasPrefix(command[i+1], "--") {
				i++
				words = append(words, command[i])
			}
			settings[strings.ToLower(name)] = strings.Trim(strings.Join(words, " "), `"'`)
		}
	case Postgres:
		for i, word := range command {
			set, ok := strings.CutPrefix(word, "-c")
			if ok && set == "" && i+1 < len(command) {
				set = command[i+1]
			} else if !ok {
				set, ok = strings.CutPrefix(word, "--")
			}
			if word == "-F" {
				set, ok = "fsync=off", true
			}
			if name, value, is := strings.Cut(set, "="); ok && is {
				if name = strings.ReplaceAll(name, "-", "_"); slices.Contains(Wants(Postgres), name) {
					settings[name] = strings.Trim(value, "'")
				}
			}
		}
	}
	return settings, whole
}

// flushes is how long a server of web applications waits for what it has under way when it is stopped, in seconds, and
// who it is; ok is false where that is not known from the command line.
func flushes(c Container) (who, seconds string, ok bool) {
	words := append(slices.Clone(c.Command), strings.Fields(c.Env["GUNICORN_CMD_ARGS"])...)
	if len(words) == 3 && words[1] == "-c" { // sh -c "…"
		words = strings.Fields(words[2])
	}
	for _, word := range words {
		switch path.Base(word) {
		case "gunicorn":
			if s := option(words, "--graceful-timeout"); s != "" {
				return "gunicorn", s, true
			}
			return "gunicorn", "30", true // https://docs.gunicorn.org/en/stable/settings.html#graceful-timeout
		case "uvicorn", "hypercorn":
			s := option(words, map[string]string{"uvicorn": "--timeout-graceful-shutdown", "hypercorn": "--graceful-timeout"}[path.Base(word)])
			return path.Base(word), s, s != ""
		}
	}
	return "", "", false
}
