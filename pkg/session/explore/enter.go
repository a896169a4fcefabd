package explore

import (
	"context"
	"fmt"
	"regexp"

	"amnesia/pkg/memory"
	"amnesia/pkg/session"
)

// do carries out steps as a script would, for the probe's user.
func (e *explorer) do(ctx context.Context, steps []session.Step, m memory.Memory) error {
	for _, st := range steps {
		if err := e.act(ctx, st, m); err != nil {
			return err
		}
	}
	return nil
}

func (e *explorer) act(ctx context.Context, st session.Step, m memory.Memory) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Patience)
	defer cancel()
	switch {
	case st.Goto != "":
		return e.page.Goto(ctx, st.Goto)
	case st.Fill != nil:
		text := map[string]string{"{{.User}}": e.found.User.Name, "{{.Password}}": e.found.User.Password, "{{.Memory}}": m.Text}[st.Fill.Text]
		return e.page.Fill(ctx, st.Fill.Selector, text)
	case st.Click != "":
		return e.page.Click(ctx, st.Click)
	case st.Press != nil:
		return e.page.Press(ctx, st.Press.Selector, st.Press.Key)
	}
	return fmt.Errorf("no step of an exploration: %+v", st)
}

func something(els []session.Element) bool { return len(els) > 0 }

func written(els []session.Element) bool { box, _ := messageBox(els); return box != nil }

// enter comes to where messages are written, through a form if there is one, and writes login and signup.
func (e *explorer) enter(ctx context.Context) error {
	els, _, err := e.elements(ctx, func(els []session.Element) bool {
		return len(passwords(els)) > 0 || written(els) || linkTo(els, isLogin) != nil
	})
	if err != nil {
		return err
	}
	if len(passwords(els)) == 0 && !written(els) {
		if els, err = e.follow(ctx, els, isLogin); err != nil {
			return err
		}
	}
	e.form = formOf(els, isLogin)
	if e.form == nil {
		e.open = true
		e.found.Notes["login"] = "nobody has to log in"
		return e.arrive(ctx, els, nil)
	}
	e.form.at = e.where()
	if len(e.form.names) == 0 {
		return &gap{"login", fmt.Sprintf("%s has a field for a password and none for a name", e.form.at)}
	}
	if e.form.wantsEmail() {
		if err := e.accounts(emailAccounts); err != nil {
			return err
		}
	}
	login := append([]session.Step{{Goto: e.form.at}}, e.form.steps()...)
	in, els, why, err := e.submit(ctx, login[1:])
	if err != nil {
		return err
	}
	if !in {
		if els, err = e.signup(ctx, els, why, login); err != nil {
			return err
		}
	}
	return e.arrive(ctx, els, login)
}

func linkTo(els []session.Element, called *regexp.Regexp) *session.Element {
	return first(els, func(el session.Element) bool {
		return (el.Role == "link" || el.Role == "button") && called.MatchString(el.Name) && !isHarm.MatchString(el.Name)
	})
}

// follow clicks a link or button that is called so, where there is one, and gives what is there then.
func (e *explorer) follow(ctx context.Context, els []session.Element, called *regexp.Regexp) ([]session.Element, error) {
	link := linkTo(els, called)
	if link == nil {
		return els, nil
	}
	if err := e.act(ctx, session.Step{Click: link.Selector}, memory.Memory{}); err != nil {
		return els, rigOnly(err)
	}
	els, _, err := e.elements(ctx, func(els []session.Element) bool { return len(passwords(els)) > 0 || written(els) })
	return els, err
}

// rigOnly keeps an error of ours: what the target refuses is found out by looking.
func rigOnly(err error) error {
	if session.IsRig(err) {
		return err
	}
	return nil
}

// submit sends a form, and says whether that has led away from it; if not, why.
func (e *explorer) submit(ctx context.Context, steps []session.Step) (in bool, els []session.Element, why string, err error) {
	alerts := func(els []session.Element) (n int) {
		for _, el := range els {
			if el.Role == "alert" {
				n++
			}
		}
		return n
	}
	before, err := e.page.Elements(ctx) // some pages always have one
	if err != nil {
		return false, nil, err.Error(), rigOnly(err)
	}
	if err := e.do(ctx, steps, memory.Memory{}); err != nil {
		return false, nil, err.Error(), rigOnly(err)
	}
	els, ok, err := e.elements(ctx, func(els []session.Element) bool {
		return something(els) && (len(passwords(els)) == 0 || alerts(els) > alerts(before))
	})
	switch {
	case err != nil:
		return false, els, "", err
	case ok && len(passwords(els)) == 0:
		return true, els, "", nil
	case ok:
		return false, els, "an alert came up", nil
	}
	return false, els, "the form is still there", nil
}

// signup makes the account first, on a page of its own, and comes back through the login.
func (e *explorer) signup(ctx context.Context, els []session.Element, why string, login []session.Step) ([]session.Element, error) {
	refused := &gap{"login", "a new name was not let in (" + why + "), and no way to make an account was found"}
	els, err := e.follow(ctx, els, isSignup)
	if err != nil {
		return nil, err
	}
	f := formOf(els, isSignup)
	if f == nil || len(f.names) == 0 {
		return nil, refused
	}
	at := e.where()
	if at == e.form.at && len(f.passwords) == len(e.form.passwords) {
		return nil, refused // it is the same form again
	}
	if f.wantsEmail() && e.found.Accounts == "" {
		if err := e.accounts(emailAccounts); err != nil {
			return nil, err
		}
	}
	steps := f.steps()
	in, els, said, err := e.submit(ctx, steps)
	if err != nil {
		return nil, err
	}
	e.found.Script.Signup = append([]session.Step{{Goto: at}}, steps...)
	if in && written(els) {
		// Signed up is logged in. To log in with the form later, the session that signed up has to leave first.
		out := logoutOf(els)
		if out == nil {
			return nil, &gap{"login", "an account was made at " + at + ", which logs in at once, and no way to log out was found"}
		}
		e.found.Script.Signup = append(e.found.Script.Signup, session.Step{Expect: &session.Expect{Selector: out.Selector}}, session.Step{Click: out.Selector},
			session.Step{Expect: &session.Expect{Selector: out.Selector, State: "hidden"}})
		if err := e.act(ctx, session.Step{Click: out.Selector}, memory.Memory{}); err != nil {
			return nil, err
		}
		if _, _, err := e.elements(ctx, func(els []session.Element) bool { return something(els) && logoutOf(els) == nil }); err != nil {
			return nil, err
		}
	}
	if err := e.act(ctx, login[0], memory.Memory{}); err != nil {
		return nil, err
	}
	in, els, why, err = e.submit(ctx, login[1:])
	if err == nil && !in {
		if said != "" {
			at += " (" + said + ")"
		}
		err = &gap{"login", "who made an account at " + at + " is not let in: " + why}
	}
	return els, err
}

func logoutOf(els []session.Element) *session.Element { return linkTo(els, isLogout) }

// arrive finds the message box on the page that one comes to, or behind one link, and ends login with it.
func (e *explorer) arrive(ctx context.Context, els []session.Element, login []session.Step) error {
	if !written(els) {
		var err error
		if els, err = e.follow(ctx, els, isChat); err != nil {
			return err
		}
		if written(els) && stable(e.where()) {
			login = append(login, session.Step{Goto: e.where()})
		}
	}
	box, _ := messageBox(els)
	if box == nil {
		return &gap{"tell", fmt.Sprintf("%s has no field for a message that could be told from others", e.where())}
	}
	if e.open {
		if len(login) == 0 {
			login = []session.Step{{Goto: e.where()}}
		}
	}
	e.found.Script.Login = append(login, session.Step{Expect: &session.Expect{Selector: box.Selector}})
	return nil
}

// logout leaves, where a way is found. That there is none is no gap.
func (e *explorer) logout(ctx context.Context) {
	els, err := e.page.Elements(ctx)
	if err != nil {
		return
	}
	out := logoutOf(els)
	if out == nil {
		return
	}
	if e.act(ctx, session.Step{Click: out.Selector}, memory.Memory{}) != nil {
		return
	}
	if _, gone, err := e.elements(ctx, func(els []session.Element) bool { return something(els) && logoutOf(els) == nil }); err != nil || !gone {
		return
	}
	e.found.Script.Logout = []session.Step{{Click: out.Selector}, {Expect: &session.Expect{Selector: out.Selector, State: "hidden"}}}
}
