const pre = document.getElementById("map");
const show = async () => {
  const answer = await fetch("/api/map");
  pre.textContent = JSON.stringify(await answer.json(), null, 2);
};
new EventSource("/api/events").addEventListener("change", show);
show();
