// What the walk through every page (tests/browser/walking.py) asks of each; axe-core is loaded before it.
window.judge = (() => {
  // Attributes that our sheets and unfold's look at. Two texts that are alike in these, with all that they lie in and
  // the sheets of their page, have the same colours: a walk judges the first of them in each theme, not the thousandth.
  const LOOKS = /^(class|style|type|disabled|open|hidden|role|aria-(current|disabled|invalid|pressed|selected)|data-.*)$/;
  const NO_LOOKS = /^data-(live|key|label|admin-utc)/;
  // The administration's, named after tables and columns: of these a sheet knows the first two alone.
  const NO_CLASSES = /(^| )(?!field-(row|tabular))(app|model|field|column)-\S+/g;

  // 53 bits of a text: of ten thousand no two are taken for one.
  const short = (text) => {
    let [low, high] = [0x811c9dc5, 0x1b873593];
    for (let at = 0; at < text.length; at += 1) {
      low = Math.imul(low ^ text.charCodeAt(at), 0x01000193);
      high = Math.imul(high ^ text.charCodeAt(at), 0x85ebca6b);
    }
    return (high & 0x1fffff) * 2 ** 32 + (low >>> 0);
  };

  const dress = (one, known) => {
    if (!known.has(one)) {
      const outside = one.parentElement ? dress(one.parentElement, known) : known.get(null);
      const seen = [...one.attributes].filter(({ name }) => LOOKS.test(name) && !NO_LOOKS.test(name));
      const attributes = seen.map(({ name, value }) => `${name}=${value.replace(NO_CLASSES, "")}`);
      known.set(one, short([outside, one.localName, ...attributes].join(" ")));
    }
    return known.get(one);
  };

  const isText = (node) => node.nodeType === Node.TEXT_NODE && node.data.trim();
  const isRead = (one) => [...one.childNodes].some(isText) && one.checkVisibility({ visibilityProperty: true });

  const unseen = (theme) => {
    const kept = `judged in ${theme}`;
    const judged = new Set(JSON.parse(sessionStorage.getItem(kept) ?? "[]"));
    const known = new Map([[null, short([...document.styleSheets].map(({ href }) => href).join(" "))]]);
    const texts = [...document.body.querySelectorAll("*")].filter(isRead).filter((one) => {
      const worn = dress(one, known);
      return !judged.has(worn) && judged.add(worn);
    });
    sessionStorage.setItem(kept, JSON.stringify([...judged]));
    return texts;
  };

  const CONTRAST = "color-contrast";
  const isGrave = ({ enabled, impact, id, tags }) =>
    enabled && /serious|critical/.test(impact) && id !== CONTRAST && !/experimental|deprecated/.test(tags);

  // `preload` would fetch every sheet once more, for a rule about turned phones that no sheet of ours can break.
  const violations = async (where, rules) => {
    const result = await axe.run(where, { resultTypes: ["violations"], preload: false, runOnly: rules });
    return result.violations.map(
      ({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].target} ${nodes[0].failureSummary}`,
    );
  };

  return {
    // By how many pixels the page is wider than its window.
    wider: () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    // Serious and critical barriers of all kinds but colours; those of the sidebar that pages share, only once.
    barriers: () => {
      const exclude = sessionStorage.getItem("judged the sidebar") ? [["#nav-sidebar-inner"]] : [];
      if (document.querySelector("#nav-sidebar-inner")) sessionStorage.setItem("judged the sidebar", "yes");
      return violations({ include: [["html"]], exclude }, axe._audit.rules.filter(isGrave).map(({ id }) => id));
    },
    // Texts whose colours are too much alike, of those that were not judged before in this theme.
    colours: async (theme) => {
      const include = unseen(theme);
      return include.length ? violations({ include }, [CONTRAST]) : [];
    },
  };
})();
