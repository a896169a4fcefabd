package session

import (
	"net/http"
	"time"
)

// Script is what a user does, by section. Text fields are Go text/template texts over Vars. Selectors are Playwright's:
// CSS, or role=button[name="Send"], or text=….
type Script struct {
	Signup  []Step `yaml:"signup,omitempty"`  // once per account
	Login   []Step `yaml:"login,omitempty"`   //
	Tell    []Step `yaml:"tell"`              //
	Recall  []Step `yaml:"recall,omitempty"`  // the view `page`
	Ask     []Step `yaml:"ask,omitempty"`     // the view `answer`
	Forget  []Step `yaml:"forget,omitempty"`  // the user deletes one memory
	Logout  []Step `yaml:"logout,omitempty"`  //
	Cleanup []Step `yaml:"cleanup,omitempty"` // purge: removes the account or all of its memories
}

// Vars is what a template may use. What request steps captured is under .Captured.
type Vars struct {
	Run      string
	N        int
	User     string
	Password string
	Memory   string // the text
	Token    string
	Question string
	ID       string // the memory's id, m42
	Captured map[string]string
}

// Step is one action: exactly one field is set. The words are Playwright's where it has one.
type Step struct {
	Goto         string   `yaml:"goto,omitempty"`
	Fill         *Fill    `yaml:"fill,omitempty"`
	Click        string   `yaml:"click,omitempty"`
	Press        *Press   `yaml:"press,omitempty"`
	Select       *Select  `yaml:"select,omitempty"`
	Expect       *Expect  `yaml:"expect,omitempty"`
	Acknowledged *Ack     `yaml:"acknowledged,omitempty"`
	Rejected     *Expect  `yaml:"rejected,omitempty"`
	Read         *Read    `yaml:"read,omitempty"`
	Request      *Request `yaml:"request,omitempty"`
}

// Fill types text into a field.
type Fill struct {
	Selector string `yaml:"selector"`
	Text     string `yaml:"text"`
}

// Press presses a key in an element, such as Enter.
type Press struct {
	Selector string `yaml:"selector"`
	Key      string `yaml:"key"`
}

// Select chooses an option by value or label.
type Select struct {
	Selector string `yaml:"selector"`
	Value    string `yaml:"value"`
}

// Expect is a condition; every field that is set must hold.
type Expect struct {
	URL      string        `yaml:"url,omitempty"`      // glob of the page's address: **/chat
	Selector string        `yaml:"selector,omitempty"` // an element is there and visible
	Contains string        `yaml:"contains,omitempty"` // and its text holds this
	State    string        `yaml:"state,omitempty"`    // of the element: visible (default), hidden, enabled, disabled
	Response string        `yaml:"response,omitempty"` // glob of a request's address: its response ended, with a status under 400
	JSON     string        `yaml:"json,omitempty"`     // JSONPath into that response: something is there (and Contains holds)
	Timeout  time.Duration `yaml:"timeout,omitempty"`  // default 10s
}

// Condition is an Expect with its templates filled in.
type Condition = Expect

// Ack is an Expect that, once it holds, is an acknowledgement level. Levels are awaited in the script's order.
type Ack struct {
	Level  string `yaml:"level,omitempty"` // default: settled
	Expect `yaml:",inline"`
}

// Read collects a list: elements of the page, or values of the last request's JSON.
type Read struct {
	Selector string `yaml:"selector,omitempty"`
	JSON     string `yaml:"json,omitempty"` // JSONPath into the last response, instead of Selector
	Role     string `yaml:"role,omitempty"` // whose utterances these are; default user
	Last     bool   `yaml:"last,omitempty"` // only the last one
	More     *More  `yaml:"more,omitempty"` // how the rest is reached
	// Ready is waited for before reading: the app's own signal that the list is complete.
	Ready *Expect `yaml:"ready,omitempty"`
}

// More says how the rest of a list is reached; it is followed to the end. Exactly one field is set.
type More struct {
	Click  string `yaml:"click,omitempty"`  // a button or link; the end is reached when it is gone or disabled
	Scroll string `yaml:"scroll,omitempty"` // an element to scroll up or down until nothing new comes (browser only)
	JSON   string `yaml:"json,omitempty"`   // JSONPath to the next address in the last response; the end is reached when it is empty
}

// Request is a request that the script sends itself, for JSON APIs.
type Request struct {
	Method  string            `yaml:"method,omitempty"` // default GET, or POST with a body
	Path    string            `yaml:"path"`
	Headers map[string]string `yaml:"headers,omitempty"`
	JSON    any               `yaml:"json,omitempty"` // templates in every string
	Form    map[string]string `yaml:"form,omitempty"`
	Expect  *ExpectResponse   `yaml:"expect,omitempty"`  // default: a status under 400
	Capture map[string]string `yaml:"capture,omitempty"` // name → JSONPath; later .Captured.name
}

// ExpectResponse is what a request step wants of its response.
type ExpectResponse struct {
	Status int    `yaml:"status,omitempty"`
	JSON   string `yaml:"json,omitempty"` // JSONPath: something is there
}

// Response is the answer to a Request, ended.
type Response struct {
	URL    string
	Status int
	Header http.Header
	Body   []byte
}
