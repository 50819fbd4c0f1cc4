// Elements by id, and new ones. Texts only ever become text nodes: nothing from a run is read as HTML.

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const fill = (id, ...children) => byId(id).replaceChildren(...children);

function number(value, digits = 2) {
  if (value === null || value === undefined) return "-";
  return typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: digits, signDisplay: "negative" }) : String(value);
}

const counted = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
