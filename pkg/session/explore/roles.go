package explore

import (
	"regexp"
	"slices"

	"amnesia/pkg/session"
)

// What elements are called. The words are those of most apps; where none fits, the kind of the element decides alone.
var (
	isLogin   = regexp.MustCompile(`(?i)\b(log|sign) ?-?in\b|\blogin\b|anmelden|einloggen|connexion|iniciar sesi`)
	isSignup  = regexp.MustCompile(`(?i)\b(sign ?-?up|register|create (an |your )?account|join)\b|registrieren|s'inscrire|registrarse`)
	isLogout  = regexp.MustCompile(`(?i)\b(log|sign) ?-?(out|off)\b|\blogout\b|abmelden|déconnexion|cerrar sesi`)
	isName    = regexp.MustCompile(`(?i)user|login|account|name|e-?mail|benutzer`)
	isEmail   = regexp.MustCompile(`(?i)e-?mail`)
	isMessage = regexp.MustCompile(`(?i)message|ask|chat|prompt|tell|say|write|type|remember|note|nachricht`)
	isSearch  = regexp.MustCompile(`(?i)search|filter|find|suche`)
	isSend    = regexp.MustCompile(`(?i)\b(send|submit|ask|post|save|add|go|remember|senden)\b|^[➤➔→↑⏎▶]$`)
	isChat    = regexp.MustCompile(`(?i)\b(new )?(chat|conversation|message|notes?|assistant)s?\b`)
	isHarm    = regexp.MustCompile(`(?i)forget|delete|remove|clear|discard|cancel|close|löschen`)
)

// what is all that an element is called by.
func what(e session.Element) string { return e.Name + " " + e.Field + " " + e.Selector }

func writable(e session.Element) bool {
	return (e.Role == "textbox" || e.Role == "searchbox" || e.Role == "combobox") && e.Tag != "select"
}

func passwords(els []session.Element) (out []session.Element) {
	for _, e := range els {
		if writable(e) && e.Type == "password" && e.Selector != "" {
			out = append(out, e)
		}
	}
	return out
}

// form is how a person logs in or signs up.
type form struct {
	at        string // its page
	names     []session.Element
	passwords []session.Element
	agree     []session.Element // boxes that must be ticked
	submit    *session.Element  // nil: Enter in the last password
}

// formOf reads the form around the page's password fields; nil where there is none.
func formOf(els []session.Element, submits *regexp.Regexp) *form {
	pws := passwords(els)
	if len(pws) == 0 {
		return nil
	}
	f := &form{}
	in := pws[len(pws)-1].Form // of several forms the last: sign-up stands below sign-in
	if submits == isLogin {
		in = pws[0].Form
	}
	var buttons []session.Element
	for _, e := range els {
		switch {
		case e.Form != in || e.Selector == "":
		case writable(e) && e.Type == "password":
			f.passwords = append(f.passwords, e)
		case writable(e) && (isName.MatchString(what(e)) || e.Type == "email" || e.Required) && !isSearch.MatchString(e.Name):
			f.names = append(f.names, e)
		case e.Role == "checkbox" && e.Required:
			f.agree = append(f.agree, e)
		case e.Role == "button" && !e.Disabled:
			buttons = append(buttons, e)
		}
	}
	f.submit = first(buttons, func(e session.Element) bool { return submits.MatchString(e.Name) },
		func(e session.Element) bool { return e.Type == "submit" && !isHarm.MatchString(e.Name) },
		func(e session.Element) bool { return len(buttons) == 1 })
	return f
}

// steps fills the form in and sends it.
func (f *form) steps() (steps []session.Step) {
	for _, e := range f.names {
		steps = append(steps, session.Step{Fill: &session.Fill{Selector: e.Selector, Text: "{{.User}}"}})
	}
	for _, e := range f.passwords {
		steps = append(steps, session.Step{Fill: &session.Fill{Selector: e.Selector, Text: "{{.Password}}"}})
	}
	for _, e := range f.agree {
		steps = append(steps, session.Step{Click: e.Selector})
	}
	if f.submit != nil {
		return append(steps, session.Step{Click: f.submit.Selector})
	}
	return append(steps, session.Step{Press: &session.Press{Selector: f.passwords[len(f.passwords)-1].Selector, Key: "Enter"}})
}

// wantsEmail reports whether a name must be an address of e-mail.
func (f *form) wantsEmail() bool {
	return slices.ContainsFunc(f.names, func(e session.Element) bool { return e.Type == "email" || isEmail.MatchString(what(e)) })
}

// first gives the first element that the first of the tests which any fits holds for.
func first(els []session.Element, tests ...func(session.Element) bool) *session.Element {
	for _, test := range tests {
		if i := slices.IndexFunc(els, func(e session.Element) bool { return e.Selector != "" && test(e) }); i >= 0 {
			return &els[i]
		}
	}
	return nil
}

// messageBox finds where messages are written, and what sends them (nil: Enter).
func messageBox(els []session.Element) (box, send *session.Element) {
	best := 0
	for i, e := range els {
		if !writable(e) || e.Selector == "" || e.Type == "password" || e.Type == "email" || isSearch.MatchString(what(e)) || e.Role == "searchbox" {
			continue
		}
		score := 1
		if e.Tag == "textarea" || e.Tag != "input" {
			score += 3
		}
		if isMessage.MatchString(what(e)) {
			score += 3
		}
		button := sender(els, i)
		if button != nil {
			score += 2
		}
		if score > best {
			best, box, send = score, &els[i], button
		}
	}
	return box, send
}

// sender finds the button that sends what is written in the element at i.
func sender(els []session.Element, i int) *session.Element {
	var buttons []session.Element
	for k, e := range els {
		if e.Role == "button" && !isHarm.MatchString(e.Name) && (els[i].Form >= 0 && e.Form == els[i].Form || els[i].Form < 0 && k > i) {
			buttons = append(buttons, e)
		}
	}
	tests := []func(session.Element) bool{func(e session.Element) bool { return isSend.MatchString(what(e)) }}
	if els[i].Form >= 0 { // elsewhere any button could be of anything
		tests = append(tests, func(e session.Element) bool { return e.Type == "submit" },
			func(session.Element) bool { return len(buttons) == 1 })
	}
	return first(buttons, tests...)
}
