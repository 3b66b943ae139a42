// Keys go to the terminal at once, not only after a click on it. (It is made when the page is loaded.)
addEventListener("load", () => setTimeout(() => document.querySelector("textarea").focus()));
